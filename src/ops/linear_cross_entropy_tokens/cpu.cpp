// SPDX-License-Identifier: Apache-2.0
// One pass over chunks of tokens forward, one backward, in which the logits are computed again.
#include <torch/library.h>

#include "ops/linear_cross_entropy/chunks.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "ops/linear_cross_entropy_tokens/linear_cross_entropy_tokens.h"
#include "ops/settings.h"

namespace mindspeed::ops {
namespace {

std::tuple<at::Tensor, at::Tensor, at::Tensor> forward_cpu(
    const CrossEntropySettings& settings,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels) {
  check_linear_cross_entropy(settings, hidden, weight, labels);
  const at::Tensor dense_labels = labels.contiguous();
  count_valid(dense_labels, weight.size(0), settings.ignore_index);
  if (hidden.scalar_type() == at::kDouble) {
    return reference::linear_cross_entropy_tokens_forward(settings, hidden, weight, labels);
  }
  TokenLosses tokens(hidden, labels);
  LinearGradients none(hidden, weight, false, false);
  LinearCrossEntropyPass{
      settings, hidden, weight, dense_labels, /*grad_losses_T=*/{}, {}, tokens, none}
      .run();
  return {tokens.losses, tokens.log_probs, tokens.correct};
}

std::tuple<at::Tensor, at::Tensor> backward_cpu(
    const CrossEntropySettings& settings,
    const at::Tensor& grad_losses,
    const at::Tensor& grad_log_probs,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    bool need_grad_hidden,
    bool need_grad_weight) {
  const at::Tensor dense_labels = labels.contiguous();
  count_valid(dense_labels, weight.size(0), settings.ignore_index);
  if (hidden.scalar_type() == at::kDouble) {
    return reference::linear_cross_entropy_tokens_backward(
        settings,
        grad_losses,
        grad_log_probs,
        hidden,
        weight,
        labels,
        need_grad_hidden,
        need_grad_weight);
  }
  TokenLosses scratch(hidden, labels);
  LinearGradients gradients(hidden, weight, need_grad_hidden, need_grad_weight);
  LinearCrossEntropyPass{
      settings,
      hidden,
      weight,
      dense_labels,
      grad_losses.contiguous(),
      grad_log_probs.contiguous(),
      scratch,
      gradients}
      .run();
  return gradients.results(hidden.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("linear_cross_entropy_tokens_forward", flat_settings<&forward_cpu>());
  m.impl("linear_cross_entropy_tokens_backward", flat_settings<&backward_cpu>());
}

}  // namespace mindspeed::ops
