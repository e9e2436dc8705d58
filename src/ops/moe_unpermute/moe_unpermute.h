// SPDX-License-Identifier: Apache-2.0
// The way back from moe_permute: each token's expert outputs, weighted and added,
//   y[t] = sum over k of weights[t, k] * rows[p],  slots[p] = t K + k
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "export.h"

namespace mindspeed::ops {

// rows [T K, N]: float32, bfloat16, float16 or float64; slots int64 [T K] of moe_permute; weights
// [T, K] of moe_router, float32 (float64 for float64) or the dtype of rows. Returns [T, N] in the
// dtype of rows. Sums run in order of k in float32 and round once: the same result on any number of
// threads. Differentiable in rows and weights; backward keeps all three. Raises ValueError for
// other shapes, dtypes, devices, and unless slots holds each of 0 .. T K - 1 once (on a CPU).
MINDSPEED_API at::Tensor moe_unpermute(
    const at::Tensor& rows, const at::Tensor& slots, const at::Tensor& weights);

// (grad_rows, grad_weights)
std::tuple<at::Tensor, at::Tensor> moe_unpermute_backward(
    const at::Tensor& grad,
    const at::Tensor& rows,
    const at::Tensor& slots,
    const at::Tensor& weights);

void check_moe_unpermute(
    const at::Tensor& rows, const at::Tensor& slots, const at::Tensor& weights);

namespace reference {

// Plain ATen, any device.
at::Tensor moe_unpermute(
    const at::Tensor& rows, const at::Tensor& slots, const at::Tensor& weights);
std::tuple<at::Tensor, at::Tensor> moe_unpermute_backward(
    const at::Tensor& grad,
    const at::Tensor& rows,
    const at::Tensor& slots,
    const at::Tensor& weights);

}  // namespace reference
}  // namespace mindspeed::ops
