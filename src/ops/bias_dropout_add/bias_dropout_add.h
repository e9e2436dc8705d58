// SPDX-License-Identifier: Apache-2.0
// The end of a transformer's sublayer in one pass:  y = residual + dropout(x + bias), dropout as in
// Srivastava et al. 2014: an element is 0 with probability p, else divided by 1 - p.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "export.h"

namespace mindspeed::ops {

// x, residual [..., N] of one dtype: float32, bfloat16, float16 or float64; bias [N] of that dtype
// or float32. p in [0, 1). Which elements drop is a hash of (seed, row, column), the row counted
// over all leading dims: the same on any device, strides and number of threads. No mask is stored:
// backward keeps bias only and hashes again. Arithmetic is float32 and rounds once. Raises
// ValueError for other shapes, dtypes, devices or p.
MINDSPEED_API at::Tensor bias_dropout_add(
    const at::Tensor& x,
    const std::optional<at::Tensor>& bias,
    const at::Tensor& residual,
    double p,
    int64_t seed);

// (grad_x, grad_bias; the latter empty without a bias); the residual's gradient is grad itself
std::tuple<at::Tensor, at::Tensor> bias_dropout_add_backward(
    const at::Tensor& grad, const std::optional<at::Tensor>& bias, double p, int64_t seed);

void check_bias_dropout_add(
    const at::Tensor& x,
    const std::optional<at::Tensor>& bias,
    const at::Tensor& residual,
    double p);

// Elements whose 32-bit hash lies below are dropped.
uint32_t dropout_threshold(double p);

namespace reference {

// Plain ATen, any device.
at::Tensor bias_dropout_add(
    const at::Tensor& x,
    const std::optional<at::Tensor>& bias,
    const at::Tensor& residual,
    double p,
    int64_t seed);
std::tuple<at::Tensor, at::Tensor> bias_dropout_add_backward(
    const at::Tensor& grad, const std::optional<at::Tensor>& bias, double p, int64_t seed);

}  // namespace reference
}  // namespace mindspeed::ops
