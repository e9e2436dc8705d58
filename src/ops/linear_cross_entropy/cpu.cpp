// SPDX-License-Identifier: Apache-2.0
// One pass over chunks of tokens; the gradients are those of the sum of all losses.
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include "ops/linear_cross_entropy/chunks.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "ops/settings.h"

namespace mindspeed::ops {
namespace {

LinearCrossEntropyResults forward_cpu(
    const CrossEntropySettings& settings,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    bool need_grad_hidden,
    bool need_grad_weight) {
  check_linear_cross_entropy(settings, hidden, weight, labels);
  const at::Tensor dense_labels = labels.contiguous();
  const int64_t valid = count_valid(dense_labels, weight.size(0), settings.ignore_index);
  if (hidden.scalar_type() == at::kDouble) {
    return reference::linear_cross_entropy_forward(
        settings, hidden, weight, labels, need_grad_hidden, need_grad_weight);
  }
  TokenLosses tokens(hidden, labels);
  LinearGradients gradients(hidden, weight, need_grad_hidden, need_grad_weight);
  const at::Tensor ones = at::ones(labels.sizes(), tokens.losses.options());
  LinearCrossEntropyPass{
      settings, hidden, weight, dense_labels, ones, /*grad_log_probs_T=*/{}, tokens, gradients}
      .run();
  const auto [grad_hidden, grad_weight] = gradients.results(hidden.scalar_type());
  return {
      tokens.losses.sum(at::kDouble).to(at::kFloat),
      at::scalar_tensor(valid, labels.options()),
      tokens.correct.sum(),
      grad_hidden,
      grad_weight};
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("linear_cross_entropy_forward", flat_settings<&forward_cpu>());
}

}  // namespace mindspeed::ops
