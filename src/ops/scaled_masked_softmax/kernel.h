// SPDX-License-Identifier: Apache-2.0
// Rows of a softmax over scaled scores, some left out. Torch-free. Strides count elements between
// rows; outputs are contiguous.
#pragma once

#include <cstdint>

#include "simd/element_type.h"

namespace mindspeed::ops {

struct ScaledMaskedSoftmaxForward {
  simd::ElementType type;
  const void* x;  // [rows, num_keys]
  int64_t x_stride;
  const uint8_t* mask;      // rows of num_keys bytes, not 0 where left out; null: none
  const int64_t* mask_row;  // the mask's row for each of x's
  float scale;
  bool causal;
  int64_t num_queries;  // a row is query (row % num_queries)
  int64_t num_keys;
  void* y;
};

struct ScaledMaskedSoftmaxBackward {
  simd::ElementType type;
  const void* grad;
  int64_t grad_stride;
  const void* y;
  int64_t y_stride;
  float scale;
  bool causal;
  int64_t num_queries;
  int64_t num_keys;
  void* grad_x;
};

// Rows [begin, end).
void scaled_masked_softmax_forward_rows(
    const ScaledMaskedSoftmaxForward& args, int64_t begin, int64_t end);
void scaled_masked_softmax_backward_rows(
    const ScaledMaskedSoftmaxBackward& args, int64_t begin, int64_t end);

}  // namespace mindspeed::ops
