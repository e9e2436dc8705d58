// SPDX-License-Identifier: Apache-2.0
// GELU (Hendrycks & Gimpel 2016, arXiv 1606.08415) with the linear layer's bias in one pass:
//   y = gelu(x + bias)
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>

#include "export.h"

namespace mindspeed::ops {

// x [..., F]: float32, bfloat16, float16 or float64; bias [F] of its dtype or float32; without one
// this is plain GELU. approximate: "tanh" or "none", the exact form; formulas in
// ops/activation/activation.h. Arithmetic is float32 and rounds once. Backward keeps x and bias.
// Raises ValueError for another form, other shapes, dtypes or devices.
MINDSPEED_API at::Tensor bias_gelu(
    const at::Tensor& x,
    const std::optional<at::Tensor>& bias = std::nullopt,
    std::string_view approximate = "tanh");

// (grad_x, grad_bias; the latter empty without a bias)
std::tuple<at::Tensor, at::Tensor> bias_gelu_backward(
    const at::Tensor& grad,
    const at::Tensor& x,
    const std::optional<at::Tensor>& bias,
    std::string_view approximate);

}  // namespace mindspeed::ops
