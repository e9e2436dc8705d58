// SPDX-License-Identifier: Apache-2.0
// Shape letters: T tokens, E experts, G groups, K experts a token.
#include "ops/moe_router/moe_router.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <limits>

#include "ops/moe_router/kernel.h"
#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

using Routing = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

void check_groups(
    int64_t num_experts, int64_t top_k, bool has_bias, int64_t num_groups, int64_t top_k_groups) {
  TORCH_CHECK_VALUE(
      num_groups >= 1 && num_experts % num_groups == 0,
      "moe_router: num_groups must divide the number of experts (",
      num_experts,
      "), got ",
      num_groups);
  TORCH_CHECK_VALUE(
      top_k_groups >= 1 && top_k_groups <= num_groups,
      "moe_router: top_k_groups must lie in [1, ",
      num_groups,
      "], the number of groups, got ",
      top_k_groups);
  const int64_t group_size = num_experts / num_groups;
  TORCH_CHECK_VALUE(
      top_k >= 1 && top_k <= top_k_groups * group_size,
      "moe_router: top_k must lie in [1, ",
      top_k_groups * group_size,
      "], the experts of top_k_groups groups, got ",
      top_k);
  TORCH_CHECK_VALUE(
      num_groups == 1 || !has_bias || group_size >= 2,
      "moe_router: groups must have at least two experts when a correction bias is given, for "
      "their best two count, got ",
      num_experts,
      " experts in ",
      num_groups,
      " groups");
}

}  // namespace

void check_moe_router(
    const at::Tensor& logits,
    int64_t top_k,
    std::string_view score,
    const std::optional<at::Tensor>& correction_bias,
    int64_t num_groups,
    int64_t top_k_groups) {
  check_float("moe_router", "logits", logits);
  TORCH_CHECK_VALUE(
      logits.dim() == 2 && logits.size(1) > 0,
      "moe_router: logits must have shape [T, E] with E at least 1, got ",
      logits.sym_sizes());
  TORCH_CHECK_VALUE(
      score == "softmax" || score == "sigmoid",
      "moe_router: score must be 'softmax' or 'sigmoid', got '",
      score,
      "'");
  check_groups(logits.size(1), top_k, correction_bias.has_value(), num_groups, top_k_groups);
  if (!correction_bias) return;
  check_row_weight("moe_router", logits, "correction_bias", *correction_bias);
  TORCH_CHECK_VALUE(
      !correction_bias->requires_grad(),
      "moe_router: correction_bias must not require a gradient, for the choice has none, got one "
      "that does; detach() it");
}

namespace {

Routing forward_fake(
    const at::Tensor& logits,
    int64_t top_k,
    std::string_view score,
    const std::optional<at::Tensor>& correction_bias,
    int64_t num_groups,
    int64_t top_k_groups,
    bool /*renormalize*/,
    double /*scaling_factor*/) {
  check_moe_router(logits, top_k, score, correction_bias, num_groups, top_k_groups);
  const c10::SymDimVector chosen{logits.sym_size(0), top_k};
  const auto integers = logits.options().dtype(at::kLong);
  return {
      at::empty_symint(chosen, logits.options().dtype(arithmetic_type(logits))),
      at::empty_symint(chosen, integers),
      at::empty_symint({logits.sym_size(1)}, integers)};
}

at::Tensor backward_fake(
    const at::Tensor& /*grad_weights*/,
    const at::Tensor& logits,
    const at::Tensor& /*experts*/,
    std::string_view /*score*/,
    bool /*renormalize*/,
    double /*scaling_factor*/) {
  return at::empty_symint(logits.sym_sizes(), logits.options());
}

class MoeRouter : public torch::autograd::Function<MoeRouter> {
 public:
  static torch::autograd::variable_list forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& logits,
      int64_t top_k,
      std::string_view score,
      const std::optional<at::Tensor>& correction_bias,
      int64_t num_groups,
      int64_t top_k_groups,
      bool renormalize,
      double scaling_factor) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [weights, experts, tokens_per_expert] = moe_router(
        logits,
        top_k,
        score,
        correction_bias,
        num_groups,
        top_k_groups,
        renormalize,
        scaling_factor);
    context->save_for_backward({logits, experts});
    context->mark_non_differentiable({experts, tokens_per_expert});
    context->saved_data["score"] = std::string(score);
    context->saved_data["renormalize"] = renormalize;
    context->saved_data["scaling_factor"] = scaling_factor;
    return {weights, experts, tokens_per_expert};
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    torch::autograd::variable_list results(8);
    results[0] = moe_router_backward(
        grads[0],
        saved[0],
        saved[1],
        context->saved_data["score"].toStringRef(),
        context->saved_data["renormalize"].toBool(),
        context->saved_data["scaling_factor"].toDouble());
    return results;
  }
};

Routing with_autograd(
    const at::Tensor& logits,
    int64_t top_k,
    std::string_view score,
    const std::optional<at::Tensor>& correction_bias,
    int64_t num_groups,
    int64_t top_k_groups,
    bool renormalize,
    double scaling_factor) {
  auto results = MoeRouter::apply(
      logits, top_k, score, correction_bias, num_groups, top_k_groups, renormalize, scaling_factor);
  return {results[0], results[1], results[2]};
}

at::Tensor scores_of(const at::Tensor& logits, std::string_view score) {
  const at::Tensor wide = logits.to(arithmetic_type(logits));
  return score == "softmax" ? at::softmax(wide, 1) : at::sigmoid(wide);
}

// Places of the `count` largest in each row, of equal ones the first first.
at::Tensor largest(const at::Tensor& values, int64_t count) {
  const at::Tensor order =
      std::get<1>(at::sort(values, /*stable=*/true, /*dim=*/1, /*descending=*/true));
  return order.slice(1, 0, count);
}

// -inf for the experts of all but the best groups.
at::Tensor limit_groups(
    const at::Tensor& choice_TE, bool has_bias, int64_t num_groups, int64_t top_k_groups) {
  const at::Tensor grouped = choice_TE.unflatten(1, {num_groups, -1});
  const at::Tensor group_TG =
      has_bias ? std::get<0>(grouped.topk(2, -1)).sum(-1) : grouped.amax(-1);
  const at::Tensor left_out = at::ones(group_TG.sizes(), group_TG.options().dtype(at::kBool))
                                  .scatter(1, largest(group_TG, top_k_groups), 0);
  return grouped.masked_fill(left_out.unsqueeze(-1), -std::numeric_limits<double>::infinity())
      .flatten(1);
}

}  // namespace

namespace reference {

Routing moe_router(
    const at::Tensor& logits,
    int64_t top_k,
    std::string_view score,
    const std::optional<at::Tensor>& correction_bias,
    int64_t num_groups,
    int64_t top_k_groups,
    bool renormalize,
    double scaling_factor) {
  check_moe_router(logits, top_k, score, correction_bias, num_groups, top_k_groups);
  const at::Tensor scores_TE = scores_of(logits, score);
  at::Tensor choice_TE =
      correction_bias ? scores_TE + correction_bias->to(scores_TE.scalar_type()) : scores_TE;
  if (num_groups > 1) {
    choice_TE = limit_groups(choice_TE, correction_bias.has_value(), num_groups, top_k_groups);
  }
  const at::Tensor experts_TK = largest(choice_TE, top_k).contiguous();
  at::Tensor weights_TK = scores_TE.gather(1, experts_TK);
  if (renormalize) weights_TK = weights_TK / (weights_TK.sum(1, /*keepdim=*/true) + kTinySum);
  const at::Tensor flat = experts_TK.flatten();
  const at::Tensor tokens_per_expert =
      at::zeros({logits.size(1)}, flat.options()).scatter_add(0, flat, at::ones_like(flat));
  return {weights_TK * scaling_factor, experts_TK, tokens_per_expert};
}

at::Tensor moe_router_backward(
    const at::Tensor& grad_weights,
    const at::Tensor& logits,
    const at::Tensor& experts,
    std::string_view score,
    bool renormalize,
    double scaling_factor) {
  const at::Tensor scores_TE = scores_of(logits, score);
  const at::Tensor chosen_TK = scores_TE.gather(1, experts);
  at::Tensor grad_TK = grad_weights * scaling_factor;
  if (renormalize) {
    const at::Tensor sum = chosen_TK.sum(1, /*keepdim=*/true) + kTinySum;
    const at::Tensor dot = (grad_TK * chosen_TK).sum(1, /*keepdim=*/true);
    grad_TK = (grad_TK - dot / sum) / sum;
  }
  const at::Tensor grad_TE = at::zeros_like(scores_TE).scatter(1, experts, grad_TK);
  if (score == "sigmoid") {
    return (grad_TE * scores_TE * (1 - scores_TE)).to(logits.scalar_type());
  }
  const at::Tensor pull = (grad_TE * scores_TE).sum(1, /*keepdim=*/true);
  return (scores_TE * (grad_TE - pull)).to(logits.scalar_type());
}

}  // namespace reference

Routing moe_router(
    const at::Tensor& logits,
    int64_t top_k,
    std::string_view score,
    const std::optional<at::Tensor>& correction_bias,
    int64_t num_groups,
    int64_t top_k_groups,
    bool renormalize,
    double scaling_factor) {
  static const auto op = operator_handle<decltype(moe_router)>("mindspeed::moe_router");
  return op.call(
      logits, top_k, score, correction_bias, num_groups, top_k_groups, renormalize, scaling_factor);
}

at::Tensor moe_router_backward(
    const at::Tensor& grad_weights,
    const at::Tensor& logits,
    const at::Tensor& experts,
    std::string_view score,
    bool renormalize,
    double scaling_factor) {
  static const auto op =
      operator_handle<decltype(moe_router_backward)>("mindspeed::moe_router_backward");
  return op.call(grad_weights, logits, experts, score, renormalize, scaling_factor);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def(
      "moe_router(Tensor logits, int top_k, str score='softmax', Tensor? correction_bias=None,"
      " int num_groups=1, int top_k_groups=1, bool renormalize=True, float scaling_factor=1.0)"
      " -> (Tensor weights, Tensor experts, Tensor tokens_per_expert)");
  m.def(
      "moe_router_backward(Tensor grad_weights, Tensor logits, Tensor experts, str score,"
      " bool renormalize, float scaling_factor) -> Tensor");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("moe_router", reference::moe_router);
  m.impl("moe_router_backward", reference::moe_router_backward);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("moe_router", forward_fake);
  m.impl("moe_router_backward", backward_fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("moe_router", with_autograd);
  m.impl("moe_router_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
