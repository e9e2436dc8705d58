// SPDX-License-Identifier: Apache-2.0
// The weight gradient of a linear layer y = x W^T, added straight into the gradient that is there
// (Megatron-LM's gradient accumulation fusion):  grad_weight += grad_out^T input
#pragma once

#include <ATen/core/Tensor.h>

#include "export.h"

namespace mindspeed::ops {

// grad_weight [O, I], grad_out [..., O], input [..., I], the latter two of one dtype: float32,
// bfloat16, float16 or float64; grad_weight of that dtype, or float32 (the main gradient of a model
// that computes in 16 bits). One GEMM with beta = 1: no gradient of its own is made and added.
// 16-bit operands of a float32 gradient are widened first, so nothing rounds to 16 bits. Not
// differentiable. Raises ValueError for other shapes, dtypes or devices.
MINDSPEED_API void linear_weight_gradient_(
    const at::Tensor& grad_weight, const at::Tensor& grad_out, const at::Tensor& input);

// total += left^T right for matrices; total has their dtype or is float32.
void add_transposed_product(
    const at::Tensor& total, const at::Tensor& left, const at::Tensor& right);

// The dtype rule of a gradient that is added to; raises ValueError.
void check_accumulator(const char* op, const at::Tensor& grad_weight, const at::Tensor& operand);

}  // namespace mindspeed::ops
