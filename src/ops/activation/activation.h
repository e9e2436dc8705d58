// SPDX-License-Identifier: Apache-2.0
// Activations over tensors: the part that swiglu, geglu, gated_activation and bias_gelu share.
//   silu(g) = g / (1 + e^-g)
//   gelu(g) = g / 2 (1 + erf(g / sqrt(2)))                            (Hendrycks & Gimpel 2016)
//   gelu_tanh(g) = g / 2 (1 + tanh(sqrt(2/pi) (g + 0.044715 g^3)))    (the same, approximated)
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "ops/activation/kernel.h"

namespace mindspeed::ops {

// "silu", "gelu" or "gelu_tanh"; raises ValueError for another name.
Activation activation_named(const char* op, std::string_view name);

// torch's names for gelu's two forms: "none" (exact) or "tanh"; raises ValueError for another.
Activation gelu_form(const char* op, std::string_view approximate);

// What an activation is applied to, of the same shape [..., F].
struct ActivationTensors {
  at::Tensor gate;
  at::Tensor up;    // undefined: no factor
  at::Tensor bias;  // of gate, then of up: [F] or [2F]; undefined: none
};

// Raises ValueError unless gate and up are floats of one shape, dtype and device.
void check_gated(const char* op, const at::Tensor& gate, const at::Tensor& up);

// Our kernel: f(gate + bias) (up + bias), contiguous.
at::Tensor activation_forward_cpu(Activation activation, const ActivationTensors& x);

// Our kernel: writes the gradients into grad_gate and grad_up (rows of unit stride; undefined like
// up) and returns the bias's in its dtype, or an empty tensor without a bias.
at::Tensor activation_backward_cpu(
    Activation activation,
    const at::Tensor& grad,
    const ActivationTensors& x,
    const at::Tensor& grad_gate,
    const at::Tensor& grad_up);

namespace reference {

// f(x) and grad f'(x), plain ATen in the dtype of x.
at::Tensor activate(Activation activation, const at::Tensor& x);
at::Tensor activate_backward(Activation activation, const at::Tensor& grad, const at::Tensor& x);

// f(gate) up and its gradients (of gate, of up): arithmetic in float32 (float64 for float64).
at::Tensor gated(Activation activation, const at::Tensor& gate, const at::Tensor& up);
std::tuple<at::Tensor, at::Tensor> gated_backward(
    Activation activation, const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up);

}  // namespace reference
}  // namespace mindspeed::ops
