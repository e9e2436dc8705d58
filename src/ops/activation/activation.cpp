// SPDX-License-Identifier: Apache-2.0
#include "ops/activation/activation.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

// The kernel's struct, and the tensors that keep its pointers alive.
struct KernelInputs {
  at::Tensor gate, up, bias;
  ActivationInputs args{};
};

KernelInputs kernel_inputs(Activation activation, const ActivationTensors& x) {
  KernelInputs inputs;
  inputs.gate = as_rows(x.gate);
  inputs.args.type = element_type(x.gate);
  inputs.args.activation = activation;
  inputs.args.gate = inputs.gate.const_data_ptr();
  inputs.args.gate_stride = inputs.gate.stride(0);
  inputs.args.size = inputs.gate.size(1);
  if (x.up.defined()) {
    inputs.up = as_rows(x.up);
    inputs.args.up = inputs.up.const_data_ptr();
    inputs.args.up_stride = inputs.up.stride(0);
  }
  if (x.bias.defined()) {
    inputs.bias = x.bias.to(at::kFloat).contiguous();
    inputs.args.gate_bias = inputs.bias.const_data_ptr<float>();
    if (x.up.defined()) inputs.args.up_bias = inputs.args.gate_bias + inputs.args.size;
  }
  return inputs;
}

}  // namespace

Activation activation_named(const char* op, std::string_view name) {
  if (name == "silu") return Activation::kSilu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_tanh") return Activation::kGeluTanh;
  TORCH_CHECK_VALUE(
      false, op, ": activation must be 'silu', 'gelu' or 'gelu_tanh', got '", name, "'");
}

Activation gelu_form(const char* op, std::string_view approximate) {
  if (approximate == "none") return Activation::kGelu;
  if (approximate == "tanh") return Activation::kGeluTanh;
  TORCH_CHECK_VALUE(false, op, ": approximate must be 'none' or 'tanh', got '", approximate, "'");
}

void check_gated(const char* op, const at::Tensor& gate, const at::Tensor& up) {
  check_float(op, "gate", gate);
  TORCH_CHECK_VALUE(gate.dim() >= 1, op, ": gate must have at least one dim, got a scalar");
  check_same(op, "gate", gate, "up", up);
}

at::Tensor activation_forward_cpu(Activation activation, const ActivationTensors& x) {
  at::Tensor out = at::empty(x.gate.sizes(), x.gate.options());
  const KernelInputs inputs = kernel_inputs(activation, x);
  for_rows(inputs.gate.size(0), inputs.args.size, [&](int64_t begin, int64_t end) {
    activation_forward_rows(inputs.args, out.mutable_data_ptr(), begin, end);
  });
  return out;
}

at::Tensor activation_backward_cpu(
    Activation activation,
    const at::Tensor& grad,
    const ActivationTensors& x,
    const at::Tensor& grad_gate,
    const at::Tensor& grad_up) {
  const KernelInputs inputs = kernel_inputs(activation, x);
  const at::Tensor grad_rows = as_rows(grad);
  const at::Tensor grad_gate_rows = as_rows(grad_gate);
  ActivationGradients gradients{};
  gradients.grad = grad_rows.const_data_ptr();
  gradients.grad_stride = grad_rows.stride(0);
  gradients.grad_gate = grad_gate_rows.mutable_data_ptr();
  gradients.grad_gate_stride = grad_gate_rows.stride(0);
  at::Tensor grad_up_rows;
  if (grad_up.defined()) {
    grad_up_rows = as_rows(grad_up);
    gradients.grad_up = grad_up_rows.mutable_data_ptr();
    gradients.grad_up_stride = grad_up_rows.stride(0);
  }
  const int64_t num_rows = inputs.gate.size(0);
  if (!x.bias.defined()) {
    for_rows(num_rows, inputs.args.size, [&](int64_t begin, int64_t end) {
      activation_backward_rows(inputs.args, gradients, begin, end, nullptr);
    });
    return at::empty({0}, x.gate.options());
  }
  return sum_over_rows(
             num_rows,
             x.bias.size(0),
             [&](int64_t begin, int64_t end, float* share) {
               activation_backward_rows(inputs.args, gradients, begin, end, share);
             })
      .to(x.bias.scalar_type());
}

namespace reference {

at::Tensor activate(Activation activation, const at::Tensor& x) {
  if (activation == Activation::kSilu) return at::silu(x);
  return at::gelu(x, activation == Activation::kGelu ? "none" : "tanh");
}

at::Tensor activate_backward(Activation activation, const at::Tensor& grad, const at::Tensor& x) {
  if (activation == Activation::kSilu) return at::silu_backward(grad, x);
  return at::gelu_backward(grad, x, activation == Activation::kGelu ? "none" : "tanh");
}

at::Tensor gated(Activation activation, const at::Tensor& gate, const at::Tensor& up) {
  const at::ScalarType type = arithmetic_type(gate);
  const at::Tensor wide = activate(activation, gate.to(type)) * up.to(type);
  return wide.to(gate.scalar_type()).contiguous();
}

std::tuple<at::Tensor, at::Tensor> gated_backward(
    Activation activation, const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  const at::ScalarType type = arithmetic_type(gate);
  const at::Tensor wide_grad = grad.to(type);
  const at::Tensor wide_gate = gate.to(type);
  const at::Tensor grad_gate = activate_backward(activation, wide_grad * up.to(type), wide_gate);
  const at::Tensor grad_up = wide_grad * activate(activation, wide_gate);
  return {
      grad_gate.to(gate.scalar_type()).contiguous(), grad_up.to(gate.scalar_type()).contiguous()};
}

}  // namespace reference
}  // namespace mindspeed::ops
