// SPDX-License-Identifier: Apache-2.0
// The residual addition and the RMSNorm after it, in one pass:
//   sum = x + residual        normed = sum / sqrt(mean(sum^2) + eps) * weight
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "export.h"

namespace mindspeed::ops {

// x, residual [..., N] of one dtype (float32, bfloat16, float16, float64); weight [N] of that dtype
// or float32. Returns (normed, sum). The norm sees sum as stored, rounded to its dtype. Backward
// keeps sum and one float a row. Raises ValueError for other shapes, dtypes or devices.
MINDSPEED_API std::tuple<at::Tensor, at::Tensor> add_rms_norm(
    const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps = 1e-6);

// (normed, sum, rstd). Its backward is rms_norm_backward over sum.
std::tuple<at::Tensor, at::Tensor, at::Tensor> add_rms_norm_forward(
    const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps);

void check_add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight);

namespace reference {

// Plain ATen, any device.
std::tuple<at::Tensor, at::Tensor, at::Tensor> add_rms_norm_forward(
    const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps);

}  // namespace reference
}  // namespace mindspeed::ops
