// SPDX-License-Identifier: Apache-2.0
#include "ops/scaled_masked_softmax/scaled_masked_softmax.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <limits>

#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

bool broadcasts_to(const at::Tensor& mask, const at::Tensor& x) {
  if (mask.dim() > x.dim()) return false;
  for (int64_t dim = -1; dim >= -mask.dim(); --dim) {
    if (mask.sym_size(dim) != 1 && mask.sym_size(dim) != x.sym_size(dim)) return false;
  }
  return true;
}

}  // namespace

void check_scaled_masked_softmax(const at::Tensor& x, const std::optional<at::Tensor>& mask) {
  check_float("scaled_masked_softmax", "x", x);
  TORCH_CHECK_VALUE(
      x.dim() >= 2, "scaled_masked_softmax: x must have shape [..., S, L], got ", x.sym_sizes());
  if (!mask) return;
  TORCH_CHECK_VALUE(
      mask->scalar_type() == at::kBool,
      "scaled_masked_softmax: mask must be bool, true where a score is left out, got ",
      mask->scalar_type());
  TORCH_CHECK_VALUE(
      broadcasts_to(*mask, x),
      "scaled_masked_softmax: mask must broadcast to the shape of x ",
      x.sym_sizes(),
      ", got ",
      mask->sym_sizes());
  TORCH_CHECK_VALUE(
      mask->device() == x.device(),
      "scaled_masked_softmax: mask must be on the device of x (",
      x.device(),
      "), got ",
      mask->device());
}

namespace {

at::Tensor forward_fake(
    const at::Tensor& x, const std::optional<at::Tensor>& mask, double /*scale*/, bool /*causal*/) {
  check_scaled_masked_softmax(x, mask);
  return at::empty_symint(x.sym_sizes(), x.options());
}

at::Tensor backward_fake(
    const at::Tensor& /*grad*/, const at::Tensor& y, double /*scale*/, bool /*causal*/) {
  return at::empty_symint(y.sym_sizes(), y.options());
}

class ScaledMaskedSoftmax : public torch::autograd::Function<ScaledMaskedSoftmax> {
 public:
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& x,
      const std::optional<at::Tensor>& mask,
      double scale,
      bool causal) {
    at::AutoDispatchBelowADInplaceOrView below;
    at::Tensor y = scaled_masked_softmax(x, mask, scale, causal);
    context->save_for_backward({y});
    context->saved_data["scale"] = scale;
    context->saved_data["causal"] = causal;
    return y;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    at::Tensor grad_x = scaled_masked_softmax_backward(
        grads[0],
        context->get_saved_variables()[0],
        context->saved_data["scale"].toDouble(),
        context->saved_data["causal"].toBool());
    return {grad_x, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

at::Tensor with_autograd(
    const at::Tensor& x, const std::optional<at::Tensor>& mask, double scale, bool causal) {
  return ScaledMaskedSoftmax::apply(x, mask, scale, causal);
}

}  // namespace

namespace reference {

at::Tensor scaled_masked_softmax(
    const at::Tensor& x, const std::optional<at::Tensor>& mask, double scale, bool causal) {
  check_scaled_masked_softmax(x, mask);
  at::Tensor hidden = at::zeros(x.sizes(), x.options().dtype(at::kBool));
  if (mask) hidden = hidden.logical_or(*mask);
  if (causal) {
    const int64_t queries = x.size(-2);
    const int64_t keys = x.size(-1);
    hidden =
        hidden.logical_or(at::ones({queries, keys}, hidden.options()).triu(keys - queries + 1));
  }
  const at::Tensor scores = x.to(arithmetic_type(x)) * scale;
  const double lowest = -std::numeric_limits<double>::infinity();
  const at::Tensor y = at::softmax(scores.masked_fill(hidden, lowest), -1);
  return y.masked_fill(hidden.all(-1, /*keepdim=*/true), 0).to(x.scalar_type()).contiguous();
}

at::Tensor scaled_masked_softmax_backward(
    const at::Tensor& grad, const at::Tensor& y, double scale, bool /*causal*/) {
  const at::ScalarType type = arithmetic_type(y);
  const at::Tensor wide_y = y.to(type);
  const at::Tensor wide_grad = grad.to(type);
  const at::Tensor pull = (wide_grad * wide_y).sum(-1, /*keepdim=*/true);
  return (wide_y * (wide_grad - pull) * scale).to(y.scalar_type()).contiguous();
}

}  // namespace reference

at::Tensor scaled_masked_softmax(
    const at::Tensor& x, const std::optional<at::Tensor>& mask, double scale, bool causal) {
  static const auto op =
      operator_handle<decltype(scaled_masked_softmax)>("mindspeed::scaled_masked_softmax");
  return op.call(x, mask, scale, causal);
}

at::Tensor scaled_masked_softmax_backward(
    const at::Tensor& grad, const at::Tensor& y, double scale, bool causal) {
  static const auto op = operator_handle<decltype(scaled_masked_softmax_backward)>(
      "mindspeed::scaled_masked_softmax_backward");
  return op.call(grad, y, scale, causal);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def(
      "scaled_masked_softmax(Tensor x, Tensor? mask=None, float scale=1.0, bool causal=False)"
      " -> Tensor");
  m.def(
      "scaled_masked_softmax_backward(Tensor grad, Tensor y, float scale, bool causal) -> Tensor");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("scaled_masked_softmax", reference::scaled_masked_softmax);
  m.impl("scaled_masked_softmax_backward", reference::scaled_masked_softmax_backward);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("scaled_masked_softmax", forward_fake);
  m.impl("scaled_masked_softmax_backward", backward_fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("scaled_masked_softmax", with_autograd);
  m.impl("scaled_masked_softmax_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
