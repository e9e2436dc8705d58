// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_cross_entropy/linear_cross_entropy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include "ops/cross_entropy/cross_entropy.h"
#include "ops/linear_cross_entropy_tokens/linear_cross_entropy_tokens.h"
#include "ops/rows.h"
#include "ops/settings.h"

namespace mindspeed::ops {

void check_linear_cross_entropy(
    const CrossEntropySettings& settings,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels) {
  check_settings("linear_cross_entropy", settings);
  check_float("linear_cross_entropy", "hidden", hidden);
  TORCH_CHECK_VALUE(
      hidden.dim() == 2 && weight.dim() == 2 && hidden.sym_size(1) == weight.sym_size(1),
      "linear_cross_entropy: hidden must be [tokens, size] and weight [vocabulary, size], got ",
      hidden.sym_sizes(),
      " and ",
      weight.sym_sizes());
  TORCH_CHECK_VALUE(
      weight.sym_size(0) > 0,
      "linear_cross_entropy: weight must have at least one row (a vocabulary), got ",
      weight.sym_sizes());
  TORCH_CHECK_VALUE(
      weight.scalar_type() == hidden.scalar_type(),
      "linear_cross_entropy: weight must have the dtype of hidden (",
      hidden.scalar_type(),
      "), got ",
      weight.scalar_type());
  TORCH_CHECK_VALUE(
      labels.dim() == 1 && labels.sym_size(0) == hidden.sym_size(0) &&
          labels.scalar_type() == at::kLong,
      "linear_cross_entropy: labels must be int64 of shape [",
      hidden.sym_size(0),
      "], got ",
      labels.scalar_type(),
      " ",
      labels.sym_sizes());
}

namespace {

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::Tensor gradient_like(const at::Tensor& x, bool needed) {
  return needed ? at::empty_symint(x.sym_sizes(), x.options()) : at::empty({0}, x.options());
}

LinearCrossEntropyResults forward_fake(
    const CrossEntropySettings& settings,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    bool need_grad_hidden,
    bool need_grad_weight) {
  check_linear_cross_entropy(settings, hidden, weight, labels);
  return {
      at::empty({}, hidden.options().dtype(arithmetic_type(hidden))),
      at::empty({}, labels.options()),
      at::empty({}, labels.options()),
      gradient_like(hidden, need_grad_hidden),
      gradient_like(weight, need_grad_weight)};
}

Three without_autograd(
    const CrossEntropySettings& settings,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels) {
  auto [loss_sum, num_valid, num_correct, grad_hidden, grad_weight] =
      linear_cross_entropy_forward(settings, hidden, weight, labels, false, false);
  return {loss_sum, num_valid, num_correct};
}

class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static torch::autograd::variable_list forward(
      torch::autograd::AutogradContext* context,
      const CrossEntropySettings& settings,
      const at::Tensor& hidden,
      const at::Tensor& weight,
      const at::Tensor& labels) {
    // needs_input_grad is known here only through the tensors; no_grad never comes this way.
    const bool need_hidden = hidden.requires_grad();
    const bool need_weight = weight.requires_grad();
    at::AutoDispatchBelowADInplaceOrView below;
    auto [loss_sum, num_valid, num_correct, grad_hidden, grad_weight] =
        linear_cross_entropy_forward(settings, hidden, weight, labels, need_hidden, need_weight);
    context->save_for_backward({grad_hidden, grad_weight});
    context->saved_data["need_hidden"] = need_hidden;
    context->saved_data["need_weight"] = need_weight;
    context->mark_non_differentiable({num_valid, num_correct});
    return {loss_sum, num_valid, num_correct};
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    // Nobody else reads what forward kept once the graph goes away, so it may be scaled where it
    // lies.
    const bool again =
        torch::autograd::get_current_graph_task_keep_graph() || at::GradMode::is_enabled();
    auto scaled = [&](at::Tensor kept) {
      return again ? kept * grads[0].to(kept.scalar_type()) : kept.mul_(grads[0]);
    };
    torch::autograd::variable_list result(4);
    if (context->saved_data["need_hidden"].toBool()) result[1] = scaled(saved[0]);
    if (context->saved_data["need_weight"].toBool()) result[2] = scaled(saved[1]);
    return result;
  }
};

Three with_autograd(
    const CrossEntropySettings& settings,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels) {
  const bool needed =
      at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad());
  if (!needed) {
    at::AutoDispatchBelowADInplaceOrView below;
    return without_autograd(settings, hidden, weight, labels);
  }
  auto outputs = LinearCrossEntropy::apply(settings, hidden, weight, labels);
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace

namespace reference {

LinearCrossEntropyResults linear_cross_entropy_forward(
    const CrossEntropySettings& settings,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    bool need_grad_hidden,
    bool need_grad_weight) {
  const auto [losses, log_probs, correct] =
      reference::linear_cross_entropy_tokens_forward(settings, hidden, weight, labels);
  const auto [grad_hidden, grad_weight] = reference::linear_cross_entropy_tokens_backward(
      settings,
      at::ones_like(losses),
      at::zeros_like(losses),
      hidden,
      weight,
      labels,
      need_grad_hidden,
      need_grad_weight);
  const at::Tensor num_valid = labels.ne(settings.ignore_index).sum();
  return {losses.sum(), num_valid, correct.sum(), grad_hidden, grad_weight};
}

}  // namespace reference

std::tuple<at::Tensor, at::Tensor, at::Tensor> linear_cross_entropy(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    const CrossEntropySettings& settings) {
  static const auto op =
      operator_with_settings<&without_autograd>("mindspeed::linear_cross_entropy");
  return call_with_settings(op, settings, hidden, weight, labels);
}

LinearCrossEntropyResults linear_cross_entropy_forward(
    const CrossEntropySettings& settings,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    bool need_grad_hidden,
    bool need_grad_weight) {
  static const auto op =
      operator_with_settings<&forward_fake>("mindspeed::linear_cross_entropy_forward");
  return call_with_settings(
      op, settings, hidden, weight, labels, need_grad_hidden, need_grad_weight);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def(
      "linear_cross_entropy(Tensor hidden, Tensor weight, Tensor labels, int ignore_index=-100,"
      " float z_loss=0.0, float label_smoothing=0.0, float softcap=0.0)"
      " -> (Tensor loss_sum, Tensor num_valid, Tensor num_correct)");
  m.def(
      "linear_cross_entropy_forward(Tensor hidden, Tensor weight, Tensor labels,"
      " bool need_grad_hidden, bool need_grad_weight, int ignore_index, float z_loss,"
      " float label_smoothing, float softcap) -> (Tensor loss_sum, Tensor num_valid,"
      " Tensor num_correct, Tensor grad_hidden, Tensor grad_weight)");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("linear_cross_entropy", flat_settings<&without_autograd>());
  m.impl("linear_cross_entropy_forward", flat_settings<&reference::linear_cross_entropy_forward>());
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("linear_cross_entropy_forward", flat_settings<&forward_fake>());
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("linear_cross_entropy", flat_settings<&with_autograd>());
  m.impl("linear_cross_entropy_forward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
