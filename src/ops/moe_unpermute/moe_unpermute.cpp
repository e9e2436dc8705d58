// SPDX-License-Identifier: Apache-2.0
#include "ops/moe_unpermute/moe_unpermute.h"

#include <ATen/ops/argsort.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {

void check_moe_unpermute(
    const at::Tensor& rows, const at::Tensor& slots, const at::Tensor& weights) {
  check_float("moe_unpermute", "rows", rows);
  TORCH_CHECK_VALUE(
      weights.dim() == 2,
      "moe_unpermute: weights must have shape [T, K], got ",
      weights.sym_sizes());
  TORCH_CHECK_VALUE(
      rows.dim() == 2 && rows.sym_size(0) == weights.sym_numel(),
      "moe_unpermute: rows must have shape [",
      weights.sym_numel(),
      ", N], one for each of weights ",
      weights.sym_sizes(),
      ", got ",
      rows.sym_sizes());
  TORCH_CHECK_VALUE(
      slots.scalar_type() == at::kLong && slots.dim() == 1 && slots.sym_size(0) == rows.sym_size(0),
      "moe_unpermute: slots must be int64 of shape [",
      rows.sym_size(0),
      "], one for each of rows, got ",
      slots.scalar_type(),
      " ",
      slots.sym_sizes());
  TORCH_CHECK_VALUE(
      weights.scalar_type() == rows.scalar_type() || weights.scalar_type() == arithmetic_type(rows),
      "moe_unpermute: weights must be ",
      arithmetic_type(rows),
      " or have the dtype of rows (",
      rows.scalar_type(),
      "), got ",
      weights.scalar_type());
  TORCH_CHECK_VALUE(
      weights.device() == rows.device() && slots.device() == rows.device(),
      "moe_unpermute: slots and weights must be on the device of rows (",
      rows.device(),
      "), got ",
      slots.device(),
      " and ",
      weights.device());
}

namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;

at::Tensor forward_fake(
    const at::Tensor& rows, const at::Tensor& slots, const at::Tensor& weights) {
  check_moe_unpermute(rows, slots, weights);
  return at::empty_symint({weights.sym_size(0), rows.sym_size(1)}, rows.options());
}

Pair backward_fake(
    const at::Tensor& /*grad*/,
    const at::Tensor& rows,
    const at::Tensor& /*slots*/,
    const at::Tensor& weights) {
  return {
      at::empty_symint(rows.sym_sizes(), rows.options()),
      at::empty_symint(weights.sym_sizes(), weights.options())};
}

class MoeUnpermute : public torch::autograd::Function<MoeUnpermute> {
 public:
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& rows,
      const at::Tensor& slots,
      const at::Tensor& weights) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({rows, slots, weights});
    return moe_unpermute(rows, slots, weights);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    auto [grad_rows, grad_weights] = moe_unpermute_backward(grads[0], saved[0], saved[1], saved[2]);
    return {grad_rows, at::Tensor(), grad_weights};
  }
};

at::Tensor with_autograd(
    const at::Tensor& rows, const at::Tensor& slots, const at::Tensor& weights) {
  return MoeUnpermute::apply(rows, slots, weights);
}

}  // namespace

namespace reference {

at::Tensor moe_unpermute(
    const at::Tensor& rows, const at::Tensor& slots, const at::Tensor& weights) {
  check_moe_unpermute(rows, slots, weights);
  const at::ScalarType type = arithmetic_type(rows);
  const at::Tensor of_slots = rows.index_select(0, slots.argsort()).to(type);
  const at::Tensor weighted =
      of_slots.view_symint({weights.sym_size(0), weights.sym_size(1), rows.sym_size(1)}) *
      weights.to(type).unsqueeze(-1);
  return weighted.sum(1).to(rows.scalar_type());
}

Pair moe_unpermute_backward(
    const at::Tensor& grad,
    const at::Tensor& rows,
    const at::Tensor& slots,
    const at::Tensor& weights) {
  const at::ScalarType type = arithmetic_type(rows);
  const at::Tensor grad_of_rows =
      grad.to(type).index_select(0, slots.floor_divide(weights.size(1)));
  const at::Tensor weight_of_rows = weights.to(type).flatten().index_select(0, slots);
  const at::Tensor grad_rows = grad_of_rows * weight_of_rows.unsqueeze(1);
  const at::Tensor dots = (grad_of_rows * rows.to(type)).sum(1);
  return {
      grad_rows.to(rows.scalar_type()),
      dots.index_select(0, slots.argsort()).view(weights.sizes()).to(weights.scalar_type())};
}

}  // namespace reference

at::Tensor moe_unpermute(
    const at::Tensor& rows, const at::Tensor& slots, const at::Tensor& weights) {
  static const auto op = operator_handle<decltype(moe_unpermute)>("mindspeed::moe_unpermute");
  return op.call(rows, slots, weights);
}

Pair moe_unpermute_backward(
    const at::Tensor& grad,
    const at::Tensor& rows,
    const at::Tensor& slots,
    const at::Tensor& weights) {
  static const auto op =
      operator_handle<decltype(moe_unpermute_backward)>("mindspeed::moe_unpermute_backward");
  return op.call(grad, rows, slots, weights);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def("moe_unpermute(Tensor rows, Tensor slots, Tensor weights) -> Tensor");
  m.def(
      "moe_unpermute_backward(Tensor grad, Tensor rows, Tensor slots, Tensor weights)"
      " -> (Tensor grad_rows, Tensor grad_weights)");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("moe_unpermute", reference::moe_unpermute);
  m.impl("moe_unpermute_backward", reference::moe_unpermute_backward);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("moe_unpermute", forward_fake);
  m.impl("moe_unpermute_backward", backward_fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("moe_unpermute", with_autograd);
  m.impl("moe_unpermute_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
