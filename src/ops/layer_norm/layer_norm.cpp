// SPDX-License-Identifier: Apache-2.0
#include "ops/layer_norm/layer_norm.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {

void check_layer_norm(
    const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  check_float("layer_norm", "x", x);
  TORCH_CHECK_VALUE(x.dim() >= 1, "layer_norm: x must have at least one dim, got a scalar");
  check_row_weight("layer_norm", x, "weight", weight);
  if (bias) check_row_weight("layer_norm", x, "bias", *bias);
}

namespace {

std::tuple<at::Tensor, at::Tensor, at::Tensor> forward_fake(
    const at::Tensor& x,
    const at::Tensor& weight,
    const std::optional<at::Tensor>& bias,
    double /*eps*/) {
  check_layer_norm(x, weight, bias);
  const auto rows = x.sym_sizes().slice(0, x.dim() - 1);
  const auto statistic = x.options().dtype(arithmetic_type(x));
  return {
      at::empty_symint(x.sym_sizes(), x.options()),
      at::empty_symint(rows, statistic),
      at::empty_symint(rows, statistic)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward_fake(
    const at::Tensor& /*grad*/,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& /*mean*/,
    const at::Tensor& /*rstd*/) {
  return {
      at::empty_symint(x.sym_sizes(), x.options()),
      at::empty_symint(weight.sym_sizes(), weight.options()),
      at::empty_symint(weight.sym_sizes(), weight.options())};
}

at::Tensor without_autograd(
    const at::Tensor& x,
    const at::Tensor& weight,
    const std::optional<at::Tensor>& bias,
    double eps) {
  return std::get<0>(layer_norm_forward(x, weight, bias, eps));
}

class LayerNorm : public torch::autograd::Function<LayerNorm> {
 public:
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight,
      const std::optional<at::Tensor>& bias,
      double eps) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [out, mean, rstd] = layer_norm_forward(x, weight, bias, eps);
    context->save_for_backward({x, weight, mean, rstd});
    if (bias) context->saved_data["bias_dtype"] = bias->scalar_type();
    return out;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    auto [grad_x, grad_weight, grad_bias] =
        layer_norm_backward(grads[0], saved[0], saved[1], saved[2], saved[3]);
    const auto bias_dtype = context->saved_data.find("bias_dtype");
    const bool has_bias = bias_dtype != context->saved_data.end();
    return {
        grad_x,
        grad_weight,
        has_bias ? grad_bias.to(bias_dtype->second.toScalarType()) : at::Tensor(),
        at::Tensor()};
  }
};

at::Tensor with_autograd(
    const at::Tensor& x,
    const at::Tensor& weight,
    const std::optional<at::Tensor>& bias,
    double eps) {
  return LayerNorm::apply(x, weight, bias, eps);
}

}  // namespace

namespace reference {

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_forward(
    const at::Tensor& x,
    const at::Tensor& weight,
    const std::optional<at::Tensor>& bias,
    double eps) {
  check_layer_norm(x, weight, bias);
  const at::ScalarType type = arithmetic_type(x);
  const at::Tensor wide = x.to(type);
  const at::Tensor mean = wide.mean(-1);
  const at::Tensor centred = wide - mean.unsqueeze(-1);
  const at::Tensor rstd = centred.square().mean(-1).add(eps).rsqrt();
  at::Tensor out = centred * rstd.unsqueeze(-1) * weight.to(type);
  if (bias) out = out + bias->to(type);
  return {out.to(x.scalar_type()).contiguous(), mean, rstd};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(
    const at::Tensor& grad,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& mean,
    const at::Tensor& rstd) {
  const at::ScalarType type = arithmetic_type(x);
  const at::Tensor scale = rstd.unsqueeze(-1);
  const at::Tensor normed = (x.to(type) - mean.unsqueeze(-1)) * scale;
  const at::Tensor wide_grad = grad.to(type);
  const at::Tensor grad_normed = wide_grad * weight.to(type);
  const at::Tensor grad_x = (grad_normed - grad_normed.mean(-1, /*keepdim=*/true) -
                             normed * (grad_normed * normed).mean(-1, /*keepdim=*/true)) *
                            scale;
  const auto sum_rows = [&](const at::Tensor& per_element) {
    return per_element.reshape_symint({-1, x.sym_size(-1)}).sum(0).to(weight.scalar_type());
  };
  return {
      grad_x.to(x.scalar_type()).contiguous(), sum_rows(wide_grad * normed), sum_rows(wide_grad)};
}

}  // namespace reference

at::Tensor layer_norm(
    const at::Tensor& x,
    const at::Tensor& weight,
    const std::optional<at::Tensor>& bias,
    double eps) {
  static const auto op = operator_handle<decltype(layer_norm)>("mindspeed::layer_norm");
  return op.call(x, weight, bias, eps);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_forward(
    const at::Tensor& x,
    const at::Tensor& weight,
    const std::optional<at::Tensor>& bias,
    double eps) {
  static const auto op =
      operator_handle<decltype(layer_norm_forward)>("mindspeed::layer_norm_forward");
  return op.call(x, weight, bias, eps);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(
    const at::Tensor& grad,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& mean,
    const at::Tensor& rstd) {
  static const auto op =
      operator_handle<decltype(layer_norm_backward)>("mindspeed::layer_norm_backward");
  return op.call(grad, x, weight, mean, rstd);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def("layer_norm(Tensor x, Tensor weight, Tensor? bias=None, float eps=1e-5) -> Tensor");
  m.def(
      "layer_norm_forward(Tensor x, Tensor weight, Tensor? bias, float eps)"
      " -> (Tensor out, Tensor mean, Tensor rstd)");
  m.def(
      "layer_norm_backward(Tensor grad, Tensor x, Tensor weight, Tensor mean, Tensor rstd)"
      " -> (Tensor grad_x, Tensor grad_weight, Tensor grad_bias)");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("layer_norm", without_autograd);
  m.impl("layer_norm_forward", reference::layer_norm_forward);
  m.impl("layer_norm_backward", reference::layer_norm_backward);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("layer_norm_forward", forward_fake);
  m.impl("layer_norm_backward", backward_fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("layer_norm", with_autograd);
  m.impl("layer_norm_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("layer_norm_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
