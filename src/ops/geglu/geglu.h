// SPDX-License-Identifier: Apache-2.0
// GeGLU (Shazeer 2020, arXiv 2002.05202):  y = gelu(gate) * up,  gelu by its tanh form,
//   gelu(g) = g / 2 * (1 + tanh(sqrt(2/pi) (g + 0.044715 g^3)))
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "export.h"

namespace mindspeed::ops {

// gate, up [..., F] of one dtype: float32, bfloat16, float16 or float64. Rows may be strided
// (halves of a packed
// [..., 2F] are read in place). Arithmetic is float32 and rounds once. Backward keeps gate and up
// only. Raises ValueError for different shapes, dtypes or devices.
MINDSPEED_API at::Tensor geglu(const at::Tensor& gate, const at::Tensor& up);

// (grad_gate, grad_up)
std::tuple<at::Tensor, at::Tensor> geglu_backward(
    const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up);

namespace reference {

// Plain ATen, any device.
at::Tensor geglu(const at::Tensor& gate, const at::Tensor& up);
std::tuple<at::Tensor, at::Tensor> geglu_backward(
    const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up);

}  // namespace reference
}  // namespace mindspeed::ops
