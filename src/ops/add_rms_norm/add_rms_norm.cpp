// SPDX-License-Identifier: Apache-2.0
#include "ops/add_rms_norm/add_rms_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/operator_handle.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rows.h"

namespace mindspeed::ops {

void check_add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight) {
  check_float("add_rms_norm", "x", x);
  TORCH_CHECK_VALUE(x.dim() >= 1, "add_rms_norm: x must have at least one dim, got a scalar");
  check_same("add_rms_norm", "x", x, "residual", residual);
  check_row_weight("add_rms_norm", x, "weight", weight);
}

namespace {

std::tuple<at::Tensor, at::Tensor, at::Tensor> forward_fake(
    const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double /*eps*/) {
  check_add_rms_norm(x, residual, weight);
  return {
      at::empty_symint(x.sym_sizes(), x.options()),
      at::empty_symint(x.sym_sizes(), x.options()),
      at::empty_symint(x.sym_sizes().slice(0, x.dim() - 1), x.options().dtype(arithmetic_type(x)))};
}

std::tuple<at::Tensor, at::Tensor> without_autograd(
    const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  auto [normed, sum, rstd] = add_rms_norm_forward(x, residual, weight, eps);
  return {normed, sum};
}

class AddRmsNorm : public torch::autograd::Function<AddRmsNorm> {
 public:
  static torch::autograd::variable_list forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& residual,
      const at::Tensor& weight,
      double eps) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [normed, sum, rstd] = add_rms_norm_forward(x, residual, weight, eps);
    context->save_for_backward({sum, weight, rstd});
    context->set_materialize_grads(false);  // the last sum of a model is often unused
    return {normed, sum};
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor grad_normed = grads[0].defined() ? grads[0] : at::zeros_like(saved[0]);
    const auto grad_sum = grads[1].defined() ? std::optional<at::Tensor>(grads[1]) : std::nullopt;
    auto [grad_x, grad_weight] =
        rms_norm_backward(grad_normed, grad_sum, saved[0], saved[1], saved[2]);
    return {grad_x, grad_x, grad_weight, at::Tensor()};
  }
};

std::tuple<at::Tensor, at::Tensor> with_autograd(
    const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  auto results = AddRmsNorm::apply(x, residual, weight, eps);
  return {results[0], results[1]};
}

}  // namespace

namespace reference {

std::tuple<at::Tensor, at::Tensor, at::Tensor> add_rms_norm_forward(
    const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  check_add_rms_norm(x, residual, weight);
  const at::Tensor sum = (x + residual).contiguous();
  auto [normed, rstd] = reference::rms_norm_forward(sum, weight, eps);
  return {normed, sum, rstd};
}

}  // namespace reference

std::tuple<at::Tensor, at::Tensor> add_rms_norm(
    const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  static const auto op = operator_handle<decltype(add_rms_norm)>("mindspeed::add_rms_norm");
  return op.call(x, residual, weight, eps);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> add_rms_norm_forward(
    const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  static const auto op =
      operator_handle<decltype(add_rms_norm_forward)>("mindspeed::add_rms_norm_forward");
  return op.call(x, residual, weight, eps);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def(
      "add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps=1e-6)"
      " -> (Tensor normed, Tensor sum)");
  m.def(
      "add_rms_norm_forward(Tensor x, Tensor residual, Tensor weight, float eps)"
      " -> (Tensor normed, Tensor sum, Tensor rstd)");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("add_rms_norm", without_autograd);
  m.impl("add_rms_norm_forward", reference::add_rms_norm_forward);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("add_rms_norm_forward", forward_fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("add_rms_norm", with_autograd);
  m.impl("add_rms_norm_forward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
