// SPDX-License-Identifier: Apache-2.0
// A gated linear unit over one packed matrix, as a fused gate-up projection makes it:
//   [gate, up] = gate_up + bias,  y = f(gate) * up     (Shazeer 2020, arXiv 2002.05202)
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>

#include "export.h"

namespace mindspeed::ops {

// gate_up [..., 2F]: float32, bfloat16, float16 or float64, the gate in the first half of each row;
// bias [2F] of its dtype or float32. activation: "silu" (SwiGLU), "gelu_tanh" or "gelu" (GeGLU);
// formulas in ops/activation/activation.h. Returns [..., F]. Arithmetic is float32 and rounds once.
// Backward keeps gate_up and bias and writes one packed gradient. Raises ValueError for another
// name, an odd last dim, other dtypes or devices.
MINDSPEED_API at::Tensor gated_activation(
    const at::Tensor& gate_up,
    const std::optional<at::Tensor>& bias = std::nullopt,
    std::string_view activation = "silu");

// (grad_gate_up, grad_bias; the latter empty without a bias)
std::tuple<at::Tensor, at::Tensor> gated_activation_backward(
    const at::Tensor& grad,
    const at::Tensor& gate_up,
    const std::optional<at::Tensor>& bias,
    std::string_view activation);

}  // namespace mindspeed::ops
