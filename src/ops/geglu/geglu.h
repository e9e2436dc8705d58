// SPDX-License-Identifier: Apache-2.0
// GeGLU (Shazeer 2020, arXiv 2002.05202):  y = gelu(gate) * up
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <tuple>

#include "export.h"

namespace mindspeed::ops {

// gate, up [..., F] of one dtype: float32, bfloat16, float16 or float64. Rows may be strided.
// approximate: gelu's form, "tanh" (Gemma's) or "none", the exact one; formulas in
// ops/activation/activation.h. Arithmetic is float32 and rounds once. Backward keeps gate and up
// only. Of one packed [..., 2F], gated_activation makes one gradient. Raises ValueError for
// different shapes, dtypes or devices, and for another form.
MINDSPEED_API at::Tensor geglu(
    const at::Tensor& gate, const at::Tensor& up, std::string_view approximate = "tanh");

// (grad_gate, grad_up)
std::tuple<at::Tensor, at::Tensor> geglu_backward(
    const at::Tensor& grad,
    const at::Tensor& gate,
    const at::Tensor& up,
    std::string_view approximate);

}  // namespace mindspeed::ops
