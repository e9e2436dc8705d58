// SPDX-License-Identifier: Apache-2.0
// Shape letters: T tokens, N hidden, V vocabulary.
#include "ops/linear_cross_entropy/linear_cross_entropy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {

void check_linear_cross_entropy(
    const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels) {
  check_float("linear_cross_entropy", "hidden", hidden);
  TORCH_CHECK_VALUE(
      hidden.dim() == 2 && weight.dim() == 2 && hidden.sym_size(1) == weight.sym_size(1),
      "linear_cross_entropy: hidden must be [tokens, size] and weight [vocabulary, size], got ",
      hidden.sym_sizes(),
      " and ",
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

using Pair = std::tuple<at::Tensor, at::Tensor>;
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

at::Tensor gradient_like(const at::Tensor& x, bool needed) {
  return needed ? at::empty_symint(x.sym_sizes(), x.options()) : at::empty({0}, x.options());
}

Four forward_fake(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    int64_t /*ignore_index*/,
    double /*z_loss*/,
    bool need_grad_hidden,
    bool need_grad_weight) {
  check_linear_cross_entropy(hidden, weight, labels);
  return {
      at::empty({}, hidden.options().dtype(arithmetic_type(hidden))),
      at::empty({}, labels.options()),
      gradient_like(hidden, need_grad_hidden),
      gradient_like(weight, need_grad_weight)};
}

Pair without_autograd(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    int64_t ignore_index,
    double z_loss) {
  auto [loss_sum, num_valid, grad_hidden, grad_weight] =
      linear_cross_entropy_forward(hidden, weight, labels, ignore_index, z_loss, false, false);
  return {loss_sum, num_valid};
}

class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static torch::autograd::variable_list forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& hidden,
      const at::Tensor& weight,
      const at::Tensor& labels,
      int64_t ignore_index,
      double z_loss) {
    // needs_input_grad is known here only through the tensors; no_grad never comes this way.
    const bool need_hidden = hidden.requires_grad();
    const bool need_weight = weight.requires_grad();
    at::AutoDispatchBelowADInplaceOrView below;
    auto [loss_sum, num_valid, grad_hidden, grad_weight] = linear_cross_entropy_forward(
        hidden, weight, labels, ignore_index, z_loss, need_hidden, need_weight);
    context->save_for_backward({grad_hidden, grad_weight});
    context->saved_data["need_hidden"] = need_hidden;
    context->saved_data["need_weight"] = need_weight;
    context->mark_non_differentiable({num_valid});
    return {loss_sum, num_valid};
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
    torch::autograd::variable_list result(5);
    if (context->saved_data["need_hidden"].toBool()) result[0] = scaled(saved[0]);
    if (context->saved_data["need_weight"].toBool()) result[1] = scaled(saved[1]);
    return result;
  }
};

Pair with_autograd(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    int64_t ignore_index,
    double z_loss) {
  const bool needed =
      at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad());
  if (!needed) {
    at::AutoDispatchBelowADInplaceOrView below;
    return without_autograd(hidden, weight, labels, ignore_index, z_loss);
  }
  auto outputs = LinearCrossEntropy::apply(hidden, weight, labels, ignore_index, z_loss);
  return {outputs[0], outputs[1]};
}

}  // namespace

namespace reference {

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> linear_cross_entropy_forward(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    int64_t ignore_index,
    double z_loss,
    bool need_grad_hidden,
    bool need_grad_weight) {
  check_linear_cross_entropy(hidden, weight, labels);
  const at::ScalarType type = arithmetic_type(hidden);
  const at::Tensor valid = labels.ne(ignore_index);
  const at::Tensor safe_labels = at::where(valid, labels, 0);
  const at::Tensor logits_TV = hidden.to(type).matmul(weight.to(type).t());
  const at::Tensor lse_T = at::logsumexp(logits_TV, {-1});
  const at::Tensor picked_T = logits_TV.gather(1, safe_labels.unsqueeze(1)).squeeze(1);
  const at::Tensor losses_T =
      (lse_T - picked_T + z_loss * lse_T.square()).masked_fill(valid.logical_not(), 0);
  at::Tensor grad_hidden = at::empty({0}, hidden.options());
  at::Tensor grad_weight = at::empty({0}, weight.options());
  if (need_grad_hidden || need_grad_weight) {
    at::Tensor grad_TV = at::softmax(logits_TV, -1) * (1 + 2 * z_loss * lse_T).unsqueeze(1);
    grad_TV = grad_TV - at::one_hot(safe_labels, weight.size(0)).to(type);
    grad_TV = grad_TV * valid.unsqueeze(1).to(type);
    if (need_grad_hidden) grad_hidden = grad_TV.matmul(weight.to(type)).to(hidden.scalar_type());
    if (need_grad_weight)
      grad_weight = grad_TV.t().matmul(hidden.to(type)).to(weight.scalar_type());
  }
  return {losses_T.sum(), valid.sum(), grad_hidden, grad_weight};
}

}  // namespace reference

std::tuple<at::Tensor, at::Tensor> linear_cross_entropy(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    int64_t ignore_index,
    double z_loss) {
  static const auto op =
      operator_handle<decltype(linear_cross_entropy)>("mindspeed::linear_cross_entropy");
  return op.call(hidden, weight, labels, ignore_index, z_loss);
}

Four linear_cross_entropy_forward(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    int64_t ignore_index,
    double z_loss,
    bool need_grad_hidden,
    bool need_grad_weight) {
  static const auto op = operator_handle<decltype(linear_cross_entropy_forward)>(
      "mindspeed::linear_cross_entropy_forward");
  return op.call(hidden, weight, labels, ignore_index, z_loss, need_grad_hidden, need_grad_weight);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def(
      "linear_cross_entropy(Tensor hidden, Tensor weight, Tensor labels, int ignore_index=-100, "
      "float z_loss=0.0)"
      " -> (Tensor loss_sum, Tensor num_valid)");
  m.def(
      "linear_cross_entropy_forward(Tensor hidden, Tensor weight, Tensor labels, int ignore_index, "
      "float z_loss, "
      "bool need_grad_hidden, bool need_grad_weight)"
      " -> (Tensor loss_sum, Tensor num_valid, Tensor grad_hidden, Tensor grad_weight)");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("linear_cross_entropy", without_autograd);
  m.impl("linear_cross_entropy_forward", reference::linear_cross_entropy_forward);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("linear_cross_entropy_forward", forward_fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("linear_cross_entropy", with_autograd);
  m.impl("linear_cross_entropy_forward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
