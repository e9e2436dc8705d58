// SPDX-License-Identifier: Apache-2.0
// Chunks of tokens on a CPU: GEMM to logits, loss and gradient in place, GEMMs to the gradients.
// Shape letters: C tokens of a chunk, T all tokens, N hidden, V vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "ops/cross_entropy/settings.h"

namespace mindspeed::ops {

// Number of labels that count; throws IndexError on one outside the vocabulary.
int64_t count_valid(const at::Tensor& labels, int64_t vocabulary, int64_t ignore_index);

struct TokenLosses {
  TokenLosses(const at::Tensor& hidden, const at::Tensor& labels);
  at::Tensor losses;     // float32 [T]
  at::Tensor log_probs;  // float32 [T]
  at::Tensor correct;    // bool [T]
};

struct LinearGradients {
  LinearGradients(
      const at::Tensor& hidden, const at::Tensor& weight, bool need_hidden, bool need_weight);
  bool needed() const { return hidden_TN.defined() || weight_VN.defined(); }
  // In the inputs' dtype; one that is not needed has no elements.
  std::tuple<at::Tensor, at::Tensor> results(at::ScalarType type) const;

  at::Tensor hidden_TN;  // undefined: not needed
  at::Tensor weight_VN;  // float32, or undefined
};

// What a pass does with the logits of every chunk.
struct LinearCrossEntropyPass {
  const CrossEntropySettings& settings;
  const at::Tensor& hidden_TN;
  const at::Tensor& weight_VN;
  const at::Tensor& labels_T;          // contiguous
  const at::Tensor& grad_losses_T;     // float32, contiguous; read when gradients are needed
  const at::Tensor& grad_log_probs_T;  // the same; undefined: zeros
  TokenLosses& tokens;                 // written
  LinearGradients& gradients;          // written where needed

  void run() const;

 private:
  void run_chunk(const at::Tensor& logits_CV, int64_t begin) const;
};

}  // namespace mindspeed::ops
