// SPDX-License-Identifier: Apache-2.0
// RMSNorm (Zhang and Sennrich 2019, arXiv 1910.07467):
//   y = x / sqrt(mean(x^2) + eps) * weight     over the last dim
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "export.h"

namespace mindspeed::ops {

// x [..., N]: float32, bfloat16, float16 or float64; weight [N]: the dtype of x, or float32.
// Arithmetic is float32 (float64 for float64) and rounds once, at the end. Backward keeps x and one
// float a row. Raises ValueError for other shapes, dtypes or devices.
MINDSPEED_API at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps = 1e-6);

// Forward with what backward needs: (y, rstd [...], one number a row).
std::tuple<at::Tensor, at::Tensor> rms_norm_forward(
    const at::Tensor& x, const at::Tensor& weight, double eps);

// (grad_x, grad_weight). grad_sum, if given, is a gradient that reaches x past the norm and is
// added to grad_x.
std::tuple<at::Tensor, at::Tensor> rms_norm_backward(
    const at::Tensor& grad,
    const std::optional<at::Tensor>& grad_sum,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& rstd);

// What x and weight must be; called by the entry of every device and by the fake.
void check_rms_norm(const at::Tensor& x, const at::Tensor& weight);

namespace reference {

// Plain ATen, any device.
std::tuple<at::Tensor, at::Tensor> rms_norm_forward(
    const at::Tensor& x, const at::Tensor& weight, double eps);
std::tuple<at::Tensor, at::Tensor> rms_norm_backward(
    const at::Tensor& grad,
    const std::optional<at::Tensor>& grad_sum,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& rstd);

}  // namespace reference
}  // namespace mindspeed::ops
