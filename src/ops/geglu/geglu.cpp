// SPDX-License-Identifier: Apache-2.0
#include "ops/geglu/geglu.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/activation/activation.h"
#include "ops/operator_handle.h"

namespace mindspeed::ops {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;

Activation form(std::string_view approximate) {
  return gelu_form("geglu", approximate);
}

at::Tensor forward_fake(
    const at::Tensor& gate, const at::Tensor& up, std::string_view approximate) {
  check_gated("geglu", gate, up);
  form(approximate);
  return at::empty_symint(gate.sym_sizes(), gate.options());
}

Pair backward_fake(
    const at::Tensor& /*grad*/,
    const at::Tensor& gate,
    const at::Tensor& up,
    std::string_view /*approximate*/) {
  return {
      at::empty_symint(gate.sym_sizes(), gate.options()),
      at::empty_symint(up.sym_sizes(), up.options())};
}

at::Tensor reference_forward(
    const at::Tensor& gate, const at::Tensor& up, std::string_view approximate) {
  check_gated("geglu", gate, up);
  return reference::gated(form(approximate), gate, up);
}

Pair reference_backward(
    const at::Tensor& grad,
    const at::Tensor& gate,
    const at::Tensor& up,
    std::string_view approximate) {
  return reference::gated_backward(form(approximate), grad, gate, up);
}

at::Tensor forward_cpu(const at::Tensor& gate, const at::Tensor& up, std::string_view approximate) {
  if (gate.scalar_type() == at::kDouble) return reference_forward(gate, up, approximate);
  check_gated("geglu", gate, up);
  return activation_forward_cpu(form(approximate), {gate, up, {}});
}

Pair backward_cpu(
    const at::Tensor& grad,
    const at::Tensor& gate,
    const at::Tensor& up,
    std::string_view approximate) {
  if (gate.scalar_type() == at::kDouble) return reference_backward(grad, gate, up, approximate);
  at::Tensor grad_gate = at::empty(gate.sizes(), gate.options());
  at::Tensor grad_up = at::empty(up.sizes(), up.options());
  activation_backward_cpu(form(approximate), grad, {gate, up, {}}, grad_gate, grad_up);
  return {grad_gate, grad_up};
}

class GeGlu : public torch::autograd::Function<GeGlu> {
 public:
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& gate,
      const at::Tensor& up,
      std::string_view approximate) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({gate, up});
    context->saved_data["approximate"] = std::string(approximate);
    return geglu(gate, up, approximate);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    auto [grad_gate, grad_up] = geglu_backward(
        grads[0], saved[0], saved[1], context->saved_data["approximate"].toStringRef());
    return {grad_gate, grad_up, at::Tensor()};
  }
};

at::Tensor with_autograd(
    const at::Tensor& gate, const at::Tensor& up, std::string_view approximate) {
  return GeGlu::apply(gate, up, approximate);
}

}  // namespace

at::Tensor geglu(const at::Tensor& gate, const at::Tensor& up, std::string_view approximate) {
  static const auto op = operator_handle<decltype(geglu)>("mindspeed::geglu");
  return op.call(gate, up, approximate);
}

Pair geglu_backward(
    const at::Tensor& grad,
    const at::Tensor& gate,
    const at::Tensor& up,
    std::string_view approximate) {
  static const auto op = operator_handle<decltype(geglu_backward)>("mindspeed::geglu_backward");
  return op.call(grad, gate, up, approximate);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def("geglu(Tensor gate, Tensor up, str approximate='tanh') -> Tensor");
  m.def(
      "geglu_backward(Tensor grad, Tensor gate, Tensor up, str approximate)"
      " -> (Tensor grad_gate, Tensor grad_up)");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("geglu", reference_forward);
  m.impl("geglu_backward", reference_backward);
}

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("geglu", forward_cpu);
  m.impl("geglu_backward", backward_cpu);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("geglu", forward_fake);
  m.impl("geglu_backward", backward_fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("geglu", with_autograd);
  m.impl("geglu_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
