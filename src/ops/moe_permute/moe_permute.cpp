// SPDX-License-Identifier: Apache-2.0
#include "ops/moe_permute/moe_permute.h"

#include <ATen/ops/argsort.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {

void check_moe_permute(const at::Tensor& x, const at::Tensor& experts, int64_t num_experts) {
  check_float("moe_permute", "x", x);
  TORCH_CHECK_VALUE(x.dim() == 2, "moe_permute: x must have shape [T, N], got ", x.sym_sizes());
  TORCH_CHECK_VALUE(
      experts.scalar_type() == at::kLong,
      "moe_permute: experts must be int64, got ",
      experts.scalar_type());
  TORCH_CHECK_VALUE(
      experts.dim() == 2 && experts.sym_size(0) == x.sym_size(0) && experts.sym_size(1) > 0,
      "moe_permute: experts must have shape [",
      x.sym_size(0),
      ", K], the experts of each row of x, got ",
      experts.sym_sizes());
  TORCH_CHECK_VALUE(
      experts.device() == x.device(),
      "moe_permute: experts must be on the device of x (",
      x.device(),
      "), got ",
      experts.device());
  TORCH_CHECK_VALUE(
      num_experts >= 1, "moe_permute: num_experts must be at least 1, got ", num_experts);
}

namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;

Pair forward_fake(const at::Tensor& x, const at::Tensor& experts, int64_t num_experts) {
  check_moe_permute(x, experts, num_experts);
  const c10::SymInt num_rows = experts.sym_numel();
  return {
      at::empty_symint({num_rows, x.sym_size(1)}, x.options()),
      at::empty_symint({num_rows}, experts.options())};
}

at::Tensor backward_fake(const at::Tensor& grad_rows, const at::Tensor& slots, int64_t top_k) {
  return at::empty_symint({slots.sym_size(0) / top_k, grad_rows.sym_size(1)}, grad_rows.options());
}

class MoePermute : public torch::autograd::Function<MoePermute> {
 public:
  static torch::autograd::variable_list forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& experts,
      int64_t num_experts) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [rows, slots] = moe_permute(x, experts, num_experts);
    context->save_for_backward({slots});
    context->mark_non_differentiable({slots});
    context->saved_data["top_k"] = experts.size(1);
    return {rows, slots};
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    at::Tensor grad_x = moe_permute_backward(
        grads[0], context->get_saved_variables()[0], context->saved_data["top_k"].toInt());
    return {grad_x, at::Tensor(), at::Tensor()};
  }
};

Pair with_autograd(const at::Tensor& x, const at::Tensor& experts, int64_t num_experts) {
  auto results = MoePermute::apply(x, experts, num_experts);
  return {results[0], results[1]};
}

}  // namespace

namespace reference {

Pair moe_permute(const at::Tensor& x, const at::Tensor& experts, int64_t num_experts) {
  check_moe_permute(x, experts, num_experts);
  const at::Tensor slots =
      at::argsort(experts.flatten(), /*stable=*/true, /*dim=*/0, /*descending=*/false);
  return {x.index_select(0, slots.floor_divide(experts.size(1))), slots};
}

at::Tensor moe_permute_backward(
    const at::Tensor& grad_rows, const at::Tensor& slots, int64_t top_k) {
  const at::Tensor of_slots = grad_rows.index_select(0, slots.argsort());
  const at::Tensor wide = of_slots.to(arithmetic_type(grad_rows));
  return wide.view_symint({slots.sym_size(0) / top_k, top_k, grad_rows.sym_size(1)})
      .sum(1)
      .to(grad_rows.scalar_type());
}

}  // namespace reference

Pair moe_permute(const at::Tensor& x, const at::Tensor& experts, int64_t num_experts) {
  static const auto op = operator_handle<decltype(moe_permute)>("mindspeed::moe_permute");
  return op.call(x, experts, num_experts);
}

at::Tensor moe_permute_backward(
    const at::Tensor& grad_rows, const at::Tensor& slots, int64_t top_k) {
  static const auto op =
      operator_handle<decltype(moe_permute_backward)>("mindspeed::moe_permute_backward");
  return op.call(grad_rows, slots, top_k);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def("moe_permute(Tensor x, Tensor experts, int num_experts) -> (Tensor rows, Tensor slots)");
  m.def("moe_permute_backward(Tensor grad_rows, Tensor slots, int top_k) -> Tensor");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("moe_permute", reference::moe_permute);
  m.impl("moe_permute_backward", reference::moe_permute_backward);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("moe_permute", forward_fake);
  m.impl("moe_permute_backward", backward_fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("moe_permute", with_autograd);
  m.impl("moe_permute_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
