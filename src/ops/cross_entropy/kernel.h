// SPDX-License-Identifier: Apache-2.0
// Cross entropy of rows of logits. Torch-free. Strides count elements between rows.
#pragma once

#include <cstdint>

#include "simd/element_type.h"

namespace mindspeed::ops {

struct CrossEntropyForward {
  simd::ElementType type;  // of logits
  const void* logits;
  int64_t logits_stride;
  const int64_t* labels;
  int64_t ignore_index;
  float* loss;     // one a row; 0 where the label is ignored
  float* maximum;  // one a row
  float* log_sum;  // one a row: log of the sum of e^(logit - maximum)
  int64_t vocabulary;
};

struct CrossEntropyBackward {
  simd::ElementType type;  // of logits, grad_logits
  const float* grad;       // one a row
  const void* logits;
  int64_t logits_stride;
  const int64_t* labels;
  int64_t ignore_index;
  const float* maximum;
  const float* log_sum;
  void* grad_logits;  // contiguous
  int64_t vocabulary;
};

// Rows [begin, end).
void cross_entropy_forward_rows(const CrossEntropyForward& args, int64_t begin, int64_t end);
void cross_entropy_backward_rows(const CrossEntropyBackward& args, int64_t begin, int64_t end);

}  // namespace mindspeed::ops
