// SPDX-License-Identifier: Apache-2.0
#include "ops/swiglu/swiglu.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/activation/activation.h"
#include "ops/operator_handle.h"

namespace mindspeed::ops {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;

at::Tensor forward_fake(const at::Tensor& gate, const at::Tensor& up) {
  check_gated("swiglu", gate, up);
  return at::empty_symint(gate.sym_sizes(), gate.options());
}

Pair backward_fake(const at::Tensor& /*grad*/, const at::Tensor& gate, const at::Tensor& up) {
  return {
      at::empty_symint(gate.sym_sizes(), gate.options()),
      at::empty_symint(up.sym_sizes(), up.options())};
}

at::Tensor reference_forward(const at::Tensor& gate, const at::Tensor& up) {
  check_gated("swiglu", gate, up);
  return reference::gated(Activation::kSilu, gate, up);
}

Pair reference_backward(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  return reference::gated_backward(Activation::kSilu, grad, gate, up);
}

at::Tensor forward_cpu(const at::Tensor& gate, const at::Tensor& up) {
  if (gate.scalar_type() == at::kDouble) return reference_forward(gate, up);
  check_gated("swiglu", gate, up);
  return activation_forward_cpu(Activation::kSilu, {gate, up, {}});
}

Pair backward_cpu(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  if (gate.scalar_type() == at::kDouble) return reference_backward(grad, gate, up);
  at::Tensor grad_gate = at::empty(gate.sizes(), gate.options());
  at::Tensor grad_up = at::empty(up.sizes(), up.options());
  activation_backward_cpu(Activation::kSilu, grad, {gate, up, {}}, grad_gate, grad_up);
  return {grad_gate, grad_up};
}

class SwiGlu : public torch::autograd::Function<SwiGlu> {
 public:
  static at::Tensor forward(
      torch::autograd::AutogradContext* context, const at::Tensor& gate, const at::Tensor& up) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({gate, up});
    return swiglu(gate, up);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    auto [grad_gate, grad_up] = swiglu_backward(grads[0], saved[0], saved[1]);
    return {grad_gate, grad_up};
  }
};

at::Tensor with_autograd(const at::Tensor& gate, const at::Tensor& up) {
  return SwiGlu::apply(gate, up);
}

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  static const auto op = operator_handle<decltype(swiglu)>("mindspeed::swiglu");
  return op.call(gate, up);
}

Pair swiglu_backward(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  static const auto op = operator_handle<decltype(swiglu_backward)>("mindspeed::swiglu_backward");
  return op.call(grad, gate, up);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  m.def(
      "swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor grad_gate, Tensor grad_up)");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("swiglu", reference_forward);
  m.impl("swiglu_backward", reference_backward);
}

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("swiglu", forward_cpu);
  m.impl("swiglu_backward", backward_cpu);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("swiglu", forward_fake);
  m.impl("swiglu_backward", backward_fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("swiglu", with_autograd);
  m.impl("swiglu_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
