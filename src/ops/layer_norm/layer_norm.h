// SPDX-License-Identifier: Apache-2.0
// LayerNorm (Ba et al. 2016, arXiv 1607.06450):
//   y = (x - mean) / sqrt(variance + eps) * weight + bias     over the last dim, variance with
//   divisor N
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "export.h"

namespace mindspeed::ops {

// x [..., N]: float32, bfloat16, float16 or float64; weight, bias [N]: the dtype of x, or float32.
// Arithmetic is float32 (float64 for float64) and rounds once. Backward keeps x and two floats a
// row. Raises ValueError for other shapes, dtypes or devices.
MINDSPEED_API at::Tensor layer_norm(
    const at::Tensor& x,
    const at::Tensor& weight,
    const std::optional<at::Tensor>& bias = std::nullopt,
    double eps = 1e-5);

// (y, mean [...], rstd [...])
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_forward(
    const at::Tensor& x,
    const at::Tensor& weight,
    const std::optional<at::Tensor>& bias,
    double eps);

// (grad_x, grad_weight, grad_bias), the last also when there is no bias: it costs nothing.
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(
    const at::Tensor& grad,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& mean,
    const at::Tensor& rstd);

void check_layer_norm(
    const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias);

namespace reference {

// Plain ATen, any device.
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_forward(
    const at::Tensor& x,
    const at::Tensor& weight,
    const std::optional<at::Tensor>& bias,
    double eps);
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(
    const at::Tensor& grad,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& mean,
    const at::Tensor& rstd);

}  // namespace reference
}  // namespace mindspeed::ops
