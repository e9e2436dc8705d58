// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_cross_entropy/chunks.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "ops/cross_entropy/kernel.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

// Float32 logits of a chunk stay in a large last-level cache and still feed the GEMMs.
constexpr int64_t kLogitsBytes = 32 << 20;
constexpr int64_t kMinTokens = 16;

}  // namespace

int64_t count_valid(const at::Tensor& labels, int64_t vocabulary, int64_t ignore_index) {
  const int64_t* data = labels.const_data_ptr<int64_t>();
  int64_t valid = 0;
  for (int64_t token = 0; token < labels.numel(); ++token) {
    if (data[token] == ignore_index) continue;
    TORCH_CHECK_INDEX(
        data[token] >= 0 && data[token] < vocabulary,
        "linear_cross_entropy: labels must be in [0, ",
        vocabulary,
        ") or ignore_index (",
        ignore_index,
        "), got ",
        data[token],
        " at token ",
        token);
    ++valid;
  }
  return valid;
}

TokenLosses::TokenLosses(const at::Tensor& hidden, const at::Tensor& labels)
    : losses(at::empty(labels.sizes(), hidden.options().dtype(at::kFloat))),
      log_probs(at::empty(labels.sizes(), losses.options())),
      correct(at::empty(labels.sizes(), losses.options().dtype(at::kBool))) {}

LinearGradients::LinearGradients(
    const at::Tensor& hidden, const at::Tensor& weight, bool need_hidden, bool need_weight) {
  if (need_hidden) hidden_TN = at::empty(hidden.sizes(), hidden.options());
  if (need_weight) weight_VN = at::zeros(weight.sizes(), weight.options().dtype(at::kFloat));
}

std::tuple<at::Tensor, at::Tensor> LinearGradients::results(at::ScalarType type) const {
  const at::Tensor none = at::empty({0}, type);
  return {hidden_TN.defined() ? hidden_TN : none, weight_VN.defined() ? weight_VN.to(type) : none};
}

void LinearCrossEntropyPass::run() const {
  const int64_t tokens_in_all = hidden_TN.size(0);
  const int64_t vocabulary = weight_VN.size(0);
  const int64_t fitting = kLogitsBytes / (vocabulary * static_cast<int64_t>(sizeof(float)));
  const int64_t chunk = std::max(fitting, kMinTokens);
  const at::Tensor buffer =
      at::empty({std::min(chunk, tokens_in_all), vocabulary}, hidden_TN.options());
  for (int64_t begin = 0; begin < tokens_in_all; begin += chunk) {
    run_chunk(buffer.narrow(0, 0, std::min(chunk, tokens_in_all - begin)), begin);
  }
}

void LinearCrossEntropyPass::run_chunk(const at::Tensor& logits_CV, int64_t begin) const {
  const int64_t count = logits_CV.size(0);
  const at::Tensor hidden_CN = hidden_TN.narrow(0, begin, count);
  at::Tensor logits = logits_CV;
  at::mm_out(logits, hidden_CN, weight_VN.t());
  const at::Tensor maximum = at::empty({count}, tokens.losses.options());
  const at::Tensor log_sum = at::empty({count}, tokens.losses.options());
  CrossEntropyForward forward{};
  forward.settings = settings;
  forward.type = element_type(logits);
  forward.logits = logits.const_data_ptr();
  forward.logits_stride = logits.size(1);
  forward.labels = labels_T.const_data_ptr<int64_t>() + begin;
  forward.loss = tokens.losses.mutable_data_ptr<float>() + begin;
  forward.log_prob = tokens.log_probs.mutable_data_ptr<float>() + begin;
  forward.correct = tokens.correct.mutable_data_ptr<bool>() + begin;
  forward.maximum = maximum.mutable_data_ptr<float>();
  forward.log_sum = log_sum.mutable_data_ptr<float>();
  forward.vocabulary = logits.size(1);
  CrossEntropyBackward backward{};
  if (gradients.needed()) {
    backward.settings = settings;
    backward.type = forward.type;
    backward.grad_loss = grad_losses_T.const_data_ptr<float>() + begin;
    if (grad_log_probs_T.defined()) {
      backward.grad_log_prob = grad_log_probs_T.const_data_ptr<float>() + begin;
    }
    backward.logits = forward.logits;
    backward.logits_stride = forward.logits_stride;
    backward.labels = forward.labels;
    backward.maximum = forward.maximum;
    backward.log_sum = forward.log_sum;
    backward.grad_logits = logits.mutable_data_ptr();
    backward.vocabulary = forward.vocabulary;
  }
  // One row after the other goes through both, while it lies in the nearest cache.
  at::parallel_for(0, count, 1, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      cross_entropy_forward_rows(forward, row, row + 1);
      if (gradients.needed()) cross_entropy_backward_rows(backward, row, row + 1);
    }
  });
  if (gradients.hidden_TN.defined()) {
    at::Tensor rows = gradients.hidden_TN.narrow(0, begin, count);
    at::mm_out(rows, logits, weight_VN);
  }
  if (!gradients.weight_VN.defined()) return;
  if (weight_VN.scalar_type() == at::kFloat) {
    gradients.weight_VN.addmm_(logits.t(), hidden_CN);
  } else {
    gradients.weight_VN.add_(at::mm(logits.t(), hidden_CN));
  }
}

}  // namespace mindspeed::ops
