// SPDX-License-Identifier: Apache-2.0
// Shape letters: T tokens, N hidden, V vocabulary.
#include "ops/linear_cross_entropy_tokens/linear_cross_entropy_tokens.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/cross_entropy/cross_entropy.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "ops/rows.h"
#include "ops/settings.h"

namespace mindspeed::ops {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::Tensor gradient_like(const at::Tensor& x, bool needed) {
  return needed ? at::empty_symint(x.sym_sizes(), x.options()) : at::empty({0}, x.options());
}

Three forward_fake(
    const CrossEntropySettings& settings,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels) {
  check_linear_cross_entropy(settings, hidden, weight, labels);
  const auto wide = hidden.options().dtype(arithmetic_type(hidden));
  return {
      at::empty_symint(labels.sym_sizes(), wide),
      at::empty_symint(labels.sym_sizes(), wide),
      at::empty_symint(labels.sym_sizes(), labels.options().dtype(at::kBool))};
}

Pair backward_fake(
    const CrossEntropySettings& /*settings*/,
    const at::Tensor& /*grad_losses*/,
    const at::Tensor& /*grad_log_probs*/,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& /*labels*/,
    bool need_grad_hidden,
    bool need_grad_weight) {
  return {gradient_like(hidden, need_grad_hidden), gradient_like(weight, need_grad_weight)};
}

class LinearCrossEntropyTokens : public torch::autograd::Function<LinearCrossEntropyTokens> {
 public:
  static torch::autograd::variable_list forward(
      torch::autograd::AutogradContext* context,
      const CrossEntropySettings& settings,
      const at::Tensor& hidden,
      const at::Tensor& weight,
      const at::Tensor& labels) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [losses, log_probs, correct] =
        linear_cross_entropy_tokens_forward(settings, hidden, weight, labels);
    context->save_for_backward({hidden, weight, labels});
    context->saved_data["settings"] = settings.flat();
    context->mark_non_differentiable({correct});
    return {losses, log_probs, correct};
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const bool need_hidden = context->needs_input_grad(0);
    const bool need_weight = context->needs_input_grad(1);
    auto [grad_hidden, grad_weight] = linear_cross_entropy_tokens_backward(
        saved_settings<CrossEntropySettings>(context->saved_data["settings"]),
        grads[0],
        grads[1],
        saved[0],
        saved[1],
        saved[2],
        need_hidden,
        need_weight);
    torch::autograd::variable_list result(4);
    if (need_hidden) result[1] = grad_hidden;
    if (need_weight) result[2] = grad_weight;
    return result;
  }
};

Three with_autograd(
    const CrossEntropySettings& settings,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels) {
  auto outputs = LinearCrossEntropyTokens::apply(settings, hidden, weight, labels);
  return {outputs[0], outputs[1], outputs[2]};
}

at::Tensor logits_of(const at::Tensor& hidden, const at::Tensor& weight) {
  const at::ScalarType type = arithmetic_type(hidden);
  return hidden.to(type).matmul(weight.to(type).t());
}

// The log-probability is minus the cross entropy that these settings give.
CrossEntropySettings without_extras(const CrossEntropySettings& settings) {
  CrossEntropySettings plain;
  plain.ignore_index = settings.ignore_index;
  plain.softcap = settings.softcap;
  return plain;
}

}  // namespace

namespace reference {

Three linear_cross_entropy_tokens_forward(
    const CrossEntropySettings& settings,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels) {
  check_linear_cross_entropy(settings, hidden, weight, labels);
  const at::Tensor logits_TV = logits_of(hidden, weight);
  const at::Tensor ignored = labels.eq(settings.ignore_index);
  const at::Tensor places = labels.masked_fill(ignored, 0).unsqueeze(1);
  const at::Tensor label_logits = logits_TV.gather(1, places).squeeze(1);
  const auto plain = reference::cross_entropy_forward(without_extras(settings), logits_TV, labels);
  return {
      std::get<0>(reference::cross_entropy_forward(settings, logits_TV, labels)),
      std::get<0>(plain).neg(),
      label_logits.ge(logits_TV.amax(1)).masked_fill(ignored, false)};
}

Pair linear_cross_entropy_tokens_backward(
    const CrossEntropySettings& settings,
    const at::Tensor& grad_losses,
    const at::Tensor& grad_log_probs,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    bool need_grad_hidden,
    bool need_grad_weight) {
  at::Tensor grad_hidden = at::empty({0}, hidden.options());
  at::Tensor grad_weight = at::empty({0}, weight.options());
  if (!need_grad_hidden && !need_grad_weight) return {grad_hidden, grad_weight};
  const at::Tensor logits_TV = logits_of(hidden, weight);
  const auto gradient = [&](const CrossEntropySettings& which, const at::Tensor& grad) {
    const auto [loss, maximum, log_sum] =
        reference::cross_entropy_forward(which, logits_TV, labels);
    return reference::cross_entropy_backward(which, grad, logits_TV, labels, maximum, log_sum);
  };
  const at::Tensor grad_TV =
      gradient(settings, grad_losses) + gradient(without_extras(settings), grad_log_probs.neg());
  const at::ScalarType type = arithmetic_type(hidden);
  if (need_grad_hidden) grad_hidden = grad_TV.matmul(weight.to(type)).to(hidden.scalar_type());
  if (need_grad_weight) {
    grad_weight = grad_TV.t().matmul(hidden.to(type)).to(weight.scalar_type());
  }
  return {grad_hidden, grad_weight};
}

}  // namespace reference

Three linear_cross_entropy_tokens(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    const CrossEntropySettings& settings) {
  static const auto op =
      operator_with_settings<&forward_fake>("mindspeed::linear_cross_entropy_tokens");
  return call_with_settings(op, settings, hidden, weight, labels);
}

Three linear_cross_entropy_tokens_forward(
    const CrossEntropySettings& settings,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels) {
  static const auto op =
      operator_with_settings<&forward_fake>("mindspeed::linear_cross_entropy_tokens_forward");
  return call_with_settings(op, settings, hidden, weight, labels);
}

Pair linear_cross_entropy_tokens_backward(
    const CrossEntropySettings& settings,
    const at::Tensor& grad_losses,
    const at::Tensor& grad_log_probs,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    bool need_grad_hidden,
    bool need_grad_weight) {
  static const auto op =
      operator_with_settings<&backward_fake>("mindspeed::linear_cross_entropy_tokens_backward");
  return call_with_settings(
      op,
      settings,
      grad_losses,
      grad_log_probs,
      hidden,
      weight,
      labels,
      need_grad_hidden,
      need_grad_weight);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def(
      "linear_cross_entropy_tokens(Tensor hidden, Tensor weight, Tensor labels,"
      " int ignore_index=-100, float z_loss=0.0, float label_smoothing=0.0, float softcap=0.0)"
      " -> (Tensor losses, Tensor log_probs, Tensor correct)");
  m.def(
      "linear_cross_entropy_tokens_forward(Tensor hidden, Tensor weight, Tensor labels,"
      " int ignore_index, float z_loss, float label_smoothing, float softcap)"
      " -> (Tensor losses, Tensor log_probs, Tensor correct)");
  m.def(
      "linear_cross_entropy_tokens_backward(Tensor grad_losses, Tensor grad_log_probs,"
      " Tensor hidden, Tensor weight, Tensor labels, bool need_grad_hidden, bool need_grad_weight,"
      " int ignore_index, float z_loss, float label_smoothing, float softcap)"
      " -> (Tensor grad_hidden, Tensor grad_weight)");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("linear_cross_entropy_tokens", flat_settings<&linear_cross_entropy_tokens_forward>());
  m.impl(
      "linear_cross_entropy_tokens_forward",
      flat_settings<&reference::linear_cross_entropy_tokens_forward>());
  m.impl(
      "linear_cross_entropy_tokens_backward",
      flat_settings<&reference::linear_cross_entropy_tokens_backward>());
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("linear_cross_entropy_tokens_forward", flat_settings<&forward_fake>());
  m.impl("linear_cross_entropy_tokens_backward", flat_settings<&backward_fake>());
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("linear_cross_entropy_tokens", flat_settings<&with_autograd>());
  m.impl("linear_cross_entropy_tokens_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("linear_cross_entropy_tokens_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
