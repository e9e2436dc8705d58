// SPDX-License-Identifier: Apache-2.0
// Tokens sorted by expert, so that each expert's rows lie together (as in MegaBlocks, Gale et al.
// 2022, arXiv 2211.15841):  rows[p] = x[slots[p] / K]
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "export.h"

namespace mindspeed::ops {

// x [T, N]: float32, bfloat16, float16 or float64; experts int64 [T, K] in [0, num_experts), of
// moe_router. Slot t K + k is token t's k-th expert; slots are sorted by expert, within an expert
// by number. Returns (rows [T K, N], slots int64 [T K], the slot of each row). Differentiable in x;
// backward keeps slots and adds a token's K gradients in order of k in float32: the same result on
// any number of threads. Raises ValueError for other shapes, dtypes, devices, and for an expert
// outside [0, num_experts) (on a CPU).
MINDSPEED_API std::tuple<at::Tensor, at::Tensor> moe_permute(
    const at::Tensor& x, const at::Tensor& experts, int64_t num_experts);

// The gradient of x: each token's rows added up.
at::Tensor moe_permute_backward(
    const at::Tensor& grad_rows, const at::Tensor& slots, int64_t top_k);

void check_moe_permute(const at::Tensor& x, const at::Tensor& experts, int64_t num_experts);

// places [T K] with places[slots[p]] = p. Raises ValueError unless slots holds each of 0 .. T K - 1
// once. On a CPU.
at::Tensor inverse_of_slots(const char* op, const at::Tensor& slots);

namespace reference {

// Plain ATen, any device.
std::tuple<at::Tensor, at::Tensor> moe_permute(
    const at::Tensor& x, const at::Tensor& experts, int64_t num_experts);
at::Tensor moe_permute_backward(
    const at::Tensor& grad_rows, const at::Tensor& slots, int64_t top_k);

}  // namespace reference
}  // namespace mindspeed::ops
