// SPDX-License-Identifier: Apache-2.0
#include "ops/swiglu/swiglu.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/gated/gated.h"
#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

at::Tensor forward_fake(const at::Tensor& gate, const at::Tensor& up) {
  check_gated("swiglu", gate, up);
  return at::empty_symint(gate.sym_sizes(), gate.options());
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

namespace reference {

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  check_gated("swiglu", gate, up);
  const at::ScalarType type = arithmetic_type(gate);
  return (at::silu(gate.to(type)) * up.to(type)).to(gate.scalar_type()).contiguous();
}

std::tuple<at::Tensor, at::Tensor> swiglu_backward(
    const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  const at::ScalarType type = arithmetic_type(gate);
  const at::Tensor wide_grad = grad.to(type);
  const at::Tensor wide_gate = gate.to(type);
  const at::Tensor grad_gate = at::silu_backward(wide_grad * up.to(type), wide_gate);
  const at::Tensor grad_up = wide_grad * at::silu(wide_gate);
  return {
      grad_gate.to(gate.scalar_type()).contiguous(), grad_up.to(gate.scalar_type()).contiguous()};
}

}  // namespace reference

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  static const auto op = operator_handle<decltype(swiglu)>("mindspeed::swiglu");
  return op.call(gate, up);
}

std::tuple<at::Tensor, at::Tensor> swiglu_backward(
    const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  static const auto op = operator_handle<decltype(swiglu_backward)>("mindspeed::swiglu_backward");
  return op.call(grad, gate, up);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  m.def(
      "swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor grad_gate, Tensor grad_up)");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("swiglu", reference::swiglu);
  m.impl("swiglu_backward", reference::swiglu_backward);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("swiglu", forward_fake);
  m.impl("swiglu_backward", gated_backward_fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("swiglu", with_autograd);
  m.impl("swiglu_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
