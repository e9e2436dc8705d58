// SPDX-License-Identifier: Apache-2.0
#include "ops/gated_activation/gated_activation.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/activation/activation.h"
#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;
using MaybeTensor = std::optional<at::Tensor>;

Activation check(const at::Tensor& gate_up, const MaybeTensor& bias, std::string_view activation) {
  check_float("gated_activation", "gate_up", gate_up);
  TORCH_CHECK_VALUE(
      gate_up.dim() >= 1 && gate_up.sym_size(-1) % 2 == 0,
      "gated_activation: gate_up must have an even last dim, gate and up side by side, got ",
      gate_up.sym_sizes());
  if (bias) check_row_weight("gated_activation", gate_up, "bias", *bias);
  return activation_named("gated_activation", activation);
}

at::Tensor half(const at::Tensor& packed, int64_t which) {
  const c10::SymInt size = packed.sym_size(-1) / 2;
  return packed.narrow_symint(-1, which * size, size);
}

at::Tensor forward_fake(
    const at::Tensor& gate_up, const MaybeTensor& bias, std::string_view activation) {
  check(gate_up, bias, activation);
  c10::SymDimVector sizes(gate_up.sym_sizes().begin(), gate_up.sym_sizes().end());
  sizes.back() = sizes.back() / 2;
  return at::empty_symint(sizes, gate_up.options());
}

Pair backward_fake(
    const at::Tensor& /*grad*/,
    const at::Tensor& gate_up,
    const MaybeTensor& bias,
    std::string_view /*activation*/) {
  return {
      at::empty_symint(gate_up.sym_sizes(), gate_up.options()),
      bias ? at::empty_symint(bias->sym_sizes(), bias->options())
           : at::empty({0}, gate_up.options())};
}

at::Tensor biased(const at::Tensor& gate_up, const MaybeTensor& bias) {
  const at::ScalarType type = arithmetic_type(gate_up);
  return bias ? gate_up.to(type) + bias->to(type) : gate_up.to(type);
}

at::Tensor reference_forward(
    const at::Tensor& gate_up, const MaybeTensor& bias, std::string_view activation) {
  const Activation f = check(gate_up, bias, activation);
  const at::Tensor wide = biased(gate_up, bias);
  return reference::gated(f, half(wide, 0), half(wide, 1)).to(gate_up.scalar_type());
}

Pair reference_backward(
    const at::Tensor& grad,
    const at::Tensor& gate_up,
    const MaybeTensor& bias,
    std::string_view activation) {
  const Activation f = check(gate_up, bias, activation);
  const at::Tensor wide = biased(gate_up, bias);
  auto [grad_gate, grad_up] = reference::gated_backward(f, grad, half(wide, 0), half(wide, 1));
  const at::Tensor grad_wide = at::cat({grad_gate, grad_up}, -1);
  at::Tensor grad_bias =
      bias ? grad_wide.reshape({-1, grad_wide.size(-1)}).sum(0) : at::empty({0}, gate_up.options());
  return {
      grad_wide.to(gate_up.scalar_type()), bias ? grad_bias.to(bias->scalar_type()) : grad_bias};
}

ActivationTensors halves(const at::Tensor& gate_up, const MaybeTensor& bias) {
  return {half(gate_up, 0), half(gate_up, 1), bias.value_or(at::Tensor())};
}

at::Tensor forward_cpu(
    const at::Tensor& gate_up, const MaybeTensor& bias, std::string_view activation) {
  if (gate_up.scalar_type() == at::kDouble) return reference_forward(gate_up, bias, activation);
  return activation_forward_cpu(check(gate_up, bias, activation), halves(gate_up, bias));
}

Pair backward_cpu(
    const at::Tensor& grad,
    const at::Tensor& gate_up,
    const MaybeTensor& bias,
    std::string_view activation) {
  if (gate_up.scalar_type() == at::kDouble) {
    return reference_backward(grad, gate_up, bias, activation);
  }
  const Activation f = check(gate_up, bias, activation);
  at::Tensor packed = at::empty(gate_up.sizes(), gate_up.options());
  at::Tensor grad_bias =
      activation_backward_cpu(f, grad, halves(gate_up, bias), half(packed, 0), half(packed, 1));
  return {packed, grad_bias};
}

class GatedActivation : public torch::autograd::Function<GatedActivation> {
 public:
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& gate_up,
      const MaybeTensor& bias,
      std::string_view activation) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({gate_up, bias.value_or(at::Tensor())});
    context->saved_data["activation"] = std::string(activation);
    return gated_activation(gate_up, bias, activation);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const auto bias = saved[1].defined() ? MaybeTensor(saved[1]) : std::nullopt;
    auto [grad_gate_up, grad_bias] = gated_activation_backward(
        grads[0], saved[0], bias, context->saved_data["activation"].toStringRef());
    return {grad_gate_up, bias ? grad_bias : at::Tensor(), at::Tensor()};
  }
};

at::Tensor with_autograd(
    const at::Tensor& gate_up, const MaybeTensor& bias, std::string_view activation) {
  return GatedActivation::apply(gate_up, bias, activation);
}

}  // namespace

at::Tensor gated_activation(
    const at::Tensor& gate_up, const MaybeTensor& bias, std::string_view activation) {
  static const auto op = operator_handle<decltype(gated_activation)>("mindspeed::gated_activation");
  return op.call(gate_up, bias, activation);
}

Pair gated_activation_backward(
    const at::Tensor& grad,
    const at::Tensor& gate_up,
    const MaybeTensor& bias,
    std::string_view activation) {
  static const auto op =
      operator_handle<decltype(gated_activation_backward)>("mindspeed::gated_activation_backward");
  return op.call(grad, gate_up, bias, activation);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def("gated_activation(Tensor gate_up, Tensor? bias=None, str activation='silu') -> Tensor");
  m.def(
      "gated_activation_backward(Tensor grad, Tensor gate_up, Tensor? bias, str activation)"
      " -> (Tensor grad_gate_up, Tensor grad_bias)");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("gated_activation", reference_forward);
  m.impl("gated_activation_backward", reference_backward);
}

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("gated_activation", forward_cpu);
  m.impl("gated_activation_backward", backward_cpu);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("gated_activation", forward_fake);
  m.impl("gated_activation_backward", backward_fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("gated_activation", with_autograd);
  m.impl("gated_activation_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
