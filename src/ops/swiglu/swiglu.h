// SPDX-License-Identifier: Apache-2.0
// SwiGLU (Shazeer 2020, arXiv 2002.05202):  y = silu(gate) * up,  silu(g) = g / (1 + e^-g)
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "export.h"

namespace mindspeed::ops {

// gate, up [..., F] of one dtype: float32, bfloat16, float16 or float64. Rows may be strided.
// Arithmetic is float32 and rounds once. Backward keeps gate and up only. Of one packed [..., 2F],
// gated_activation makes one gradient. Raises ValueError for different shapes, dtypes or devices.
MINDSPEED_API at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

// (grad_gate, grad_up)
std::tuple<at::Tensor, at::Tensor> swiglu_backward(
    const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up);

}  // namespace mindspeed::ops
