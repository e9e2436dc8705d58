// SPDX-License-Identifier: Apache-2.0
// Cross entropy of rows of logits. Torch-free. Strides count elements between rows.
#pragma once

#include <cstdint>

#include "ops/cross_entropy/settings.h"
#include "simd/element_type.h"

namespace mindspeed::ops {

struct CrossEntropyForward {
  CrossEntropySettings settings;
  simd::ElementType type;  // of logits
  const void* logits;
  int64_t logits_stride;
  const int64_t* labels;
  float* loss;      // one a row; 0 where the label is ignored, as are the others
  float* log_prob;  // of the label; null: not wanted
  bool* correct;    // no logit is larger than the label's; null: not wanted
  float* maximum;   // of the row, after the softcap
  float* log_sum;   // log of the sum of e^(s - maximum)
  int64_t vocabulary;
};

struct CrossEntropyBackward {
  CrossEntropySettings settings;
  simd::ElementType type;      // of logits, grad_logits
  const float* grad_loss;      // one a row
  const float* grad_log_prob;  // one a row; null: zeros
  const void* logits;
  int64_t logits_stride;
  const int64_t* labels;
  const float* maximum;
  const float* log_sum;
  void* grad_logits;  // contiguous; may be the logits themselves where those are
  int64_t vocabulary;
};

// Rows [begin, end).
void cross_entropy_forward_rows(const CrossEntropyForward& args, int64_t begin, int64_t end);
void cross_entropy_backward_rows(const CrossEntropyBackward& args, int64_t begin, int64_t end);

}  // namespace mindspeed::ops
