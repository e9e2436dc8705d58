// SPDX-License-Identifier: Apache-2.0
#include "ops/bias_gelu/bias_gelu.h"

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

Activation check(const at::Tensor& x, const MaybeTensor& bias, std::string_view approximate) {
  check_float("bias_gelu", "x", x);
  TORCH_CHECK_VALUE(x.dim() >= 1, "bias_gelu: x must have at least one dim, got a scalar");
  if (bias) check_row_weight("bias_gelu", x, "bias", *bias);
  return gelu_form("bias_gelu", approximate);
}

at::Tensor forward_fake(
    const at::Tensor& x, const MaybeTensor& bias, std::string_view approximate) {
  check(x, bias, approximate);
  return at::empty_symint(x.sym_sizes(), x.options());
}

Pair backward_fake(
    const at::Tensor& /*grad*/,
    const at::Tensor& x,
    const MaybeTensor& bias,
    std::string_view /*approximate*/) {
  return {
      at::empty_symint(x.sym_sizes(), x.options()),
      bias ? at::empty_symint(bias->sym_sizes(), bias->options()) : at::empty({0}, x.options())};
}

at::Tensor biased(const at::Tensor& x, const MaybeTensor& bias) {
  const at::ScalarType type = arithmetic_type(x);
  return bias ? x.to(type) + bias->to(type) : x.to(type);
}

at::Tensor reference_forward(
    const at::Tensor& x, const MaybeTensor& bias, std::string_view approximate) {
  const Activation f = check(x, bias, approximate);
  return reference::activate(f, biased(x, bias)).to(x.scalar_type()).contiguous();
}

Pair reference_backward(
    const at::Tensor& grad,
    const at::Tensor& x,
    const MaybeTensor& bias,
    std::string_view approximate) {
  const Activation f = check(x, bias, approximate);
  const at::Tensor wide_grad = grad.to(arithmetic_type(x));
  const at::Tensor wide = reference::activate_backward(f, wide_grad, biased(x, bias));
  at::Tensor grad_bias = bias ? wide.reshape({-1, x.size(-1)}).sum(0).to(bias->scalar_type())
                              : at::empty({0}, x.options());
  return {wide.to(x.scalar_type()).contiguous(), grad_bias};
}

at::Tensor forward_cpu(const at::Tensor& x, const MaybeTensor& bias, std::string_view approximate) {
  if (x.scalar_type() == at::kDouble) return reference_forward(x, bias, approximate);
  return activation_forward_cpu(check(x, bias, approximate), {x, {}, bias.value_or(at::Tensor())});
}

Pair backward_cpu(
    const at::Tensor& grad,
    const at::Tensor& x,
    const MaybeTensor& bias,
    std::string_view approximate) {
  if (x.scalar_type() == at::kDouble) return reference_backward(grad, x, bias, approximate);
  const Activation f = check(x, bias, approximate);
  at::Tensor grad_x = at::empty(x.sizes(), x.options());
  at::Tensor grad_bias =
      activation_backward_cpu(f, grad, {x, {}, bias.value_or(at::Tensor())}, grad_x, {});
  return {grad_x, grad_bias};
}

class BiasGelu : public torch::autograd::Function<BiasGelu> {
 public:
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& x,
      const MaybeTensor& bias,
      std::string_view approximate) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x, bias.value_or(at::Tensor())});
    context->saved_data["approximate"] = std::string(approximate);
    return bias_gelu(x, bias, approximate);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const auto bias = saved[1].defined() ? MaybeTensor(saved[1]) : std::nullopt;
    auto [grad_x, grad_bias] = bias_gelu_backward(
        grads[0], saved[0], bias, context->saved_data["approximate"].toStringRef());
    return {grad_x, bias ? grad_bias : at::Tensor(), at::Tensor()};
  }
};

at::Tensor with_autograd(
    const at::Tensor& x, const MaybeTensor& bias, std::string_view approximate) {
  return BiasGelu::apply(x, bias, approximate);
}

}  // namespace

at::Tensor bias_gelu(const at::Tensor& x, const MaybeTensor& bias, std::string_view approximate) {
  static const auto op = operator_handle<decltype(bias_gelu)>("mindspeed::bias_gelu");
  return op.call(x, bias, approximate);
}

Pair bias_gelu_backward(
    const at::Tensor& grad,
    const at::Tensor& x,
    const MaybeTensor& bias,
    std::string_view approximate) {
  static const auto op =
      operator_handle<decltype(bias_gelu_backward)>("mindspeed::bias_gelu_backward");
  return op.call(grad, x, bias, approximate);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def("bias_gelu(Tensor x, Tensor? bias=None, str approximate='tanh') -> Tensor");
  m.def(
      "bias_gelu_backward(Tensor grad, Tensor x, Tensor? bias, str approximate)"
      " -> (Tensor grad_x, Tensor grad_bias)");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("bias_gelu", reference_forward);
  m.impl("bias_gelu_backward", reference_backward);
}

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("bias_gelu", forward_cpu);
  m.impl("bias_gelu_backward", backward_cpu);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("bias_gelu", forward_fake);
  m.impl("bias_gelu_backward", backward_fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("bias_gelu", with_autograd);
  m.impl("bias_gelu_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
