// SPDX-License-Identifier: Apache-2.0
#include "ops/rms_norm/rms_norm.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {

void check_rms_norm(const at::Tensor& x, const at::Tensor& weight) {
  check_float("rms_norm", "x", x);
  TORCH_CHECK_VALUE(x.dim() >= 1, "rms_norm: x must have at least one dim, got a scalar");
  check_row_weight("rms_norm", x, "weight", weight);
}

namespace {

std::tuple<at::Tensor, at::Tensor> forward_fake(
    const at::Tensor& x, const at::Tensor& weight, double /*eps*/) {
  check_rms_norm(x, weight);
  return {
      at::empty_symint(x.sym_sizes(), x.options()),
      at::empty_symint(x.sym_sizes().slice(0, x.dim() - 1), x.options().dtype(arithmetic_type(x)))};
}

std::tuple<at::Tensor, at::Tensor> backward_fake(
    const at::Tensor& /*grad*/,
    const std::optional<at::Tensor>& /*grad_sum*/,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& /*rstd*/) {
  return {
      at::empty_symint(x.sym_sizes(), x.options()),
      at::empty_symint(weight.sym_sizes(), weight.options())};
}

at::Tensor without_autograd(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return std::get<0>(rms_norm_forward(x, weight, eps));
}

class RmsNorm : public torch::autograd::Function<RmsNorm> {
 public:
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight,
      double eps) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [out, rstd] = rms_norm_forward(x, weight, eps);
    context->save_for_backward({x, weight, rstd});
    return out;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    auto [grad_x, grad_weight] =
        rms_norm_backward(grads[0], std::nullopt, saved[0], saved[1], saved[2]);
    return {grad_x, grad_weight, at::Tensor()};
  }
};

at::Tensor with_autograd(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return RmsNorm::apply(x, weight, eps);
}

}  // namespace

namespace reference {

std::tuple<at::Tensor, at::Tensor> rms_norm_forward(
    const at::Tensor& x, const at::Tensor& weight, double eps) {
  check_rms_norm(x, weight);
  const at::ScalarType type = arithmetic_type(x);
  const at::Tensor wide = x.to(type);
  const at::Tensor rstd = wide.square().mean(-1).add(eps).rsqrt();
  const at::Tensor out = (wide * rstd.unsqueeze(-1) * weight.to(type)).to(x.scalar_type());
  return {out.contiguous(), rstd};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(
    const at::Tensor& grad,
    const std::optional<at::Tensor>& grad_sum,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& rstd) {
  const at::ScalarType type = arithmetic_type(x);
  const at::Tensor scale = rstd.unsqueeze(-1);
  const at::Tensor normed = x.to(type) * scale;
  const at::Tensor wide_grad = grad.to(type);
  const at::Tensor grad_normed = wide_grad * weight.to(type);
  at::Tensor grad_x =
      (grad_normed - normed * (grad_normed * normed).mean(-1, /*keepdim=*/true)) * scale;
  if (grad_sum) grad_x = grad_x + grad_sum->to(type);
  const at::Tensor grad_weight = (wide_grad * normed).reshape_symint({-1, x.sym_size(-1)}).sum(0);
  return {grad_x.to(x.scalar_type()).contiguous(), grad_weight.to(weight.scalar_type())};
}

}  // namespace reference

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  static const auto op = operator_handle<decltype(rms_norm)>("mindspeed::rms_norm");
  return op.call(x, weight, eps);
}

std::tuple<at::Tensor, at::Tensor> rms_norm_forward(
    const at::Tensor& x, const at::Tensor& weight, double eps) {
  static const auto op = operator_handle<decltype(rms_norm_forward)>("mindspeed::rms_norm_forward");
  return op.call(x, weight, eps);
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(
    const at::Tensor& grad,
    const std::optional<at::Tensor>& grad_sum,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& rstd) {
  static const auto op =
      operator_handle<decltype(rms_norm_backward)>("mindspeed::rms_norm_backward");
  return op.call(grad, grad_sum, x, weight, rstd);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def("rms_norm(Tensor x, Tensor weight, float eps=1e-6) -> Tensor");
  m.def("rms_norm_forward(Tensor x, Tensor weight, float eps) -> (Tensor out, Tensor rstd)");
  m.def(
      "rms_norm_backward(Tensor grad, Tensor? grad_sum, Tensor x, Tensor weight, Tensor rstd)"
      " -> (Tensor grad_x, Tensor grad_weight)");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("rms_norm", without_autograd);
  m.impl("rms_norm_forward", reference::rms_norm_forward);
  m.impl("rms_norm_backward", reference::rms_norm_backward);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("rms_norm_forward", forward_fake);
  m.impl("rms_norm_backward", backward_fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("rms_norm", with_autograd);
  m.impl("rms_norm_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("rms_norm_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
