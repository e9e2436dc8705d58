// SPDX-License-Identifier: Apache-2.0
// Rows of  y = residual + dropout(x + bias). Torch-free. Strides count elements between rows;
// outputs are contiguous.
#pragma once

#include <cstdint>

#include "simd/element_type.h"

namespace mindspeed::ops {

struct DropoutRule {
  uint32_t threshold;  // dropped where the element's hash lies below; 0: nothing is
  float keep_factor;   // 1 / (1 - p)
  uint64_t seed;
};

struct BiasDropoutAddForward {
  simd::ElementType type;
  const void* x;
  int64_t x_stride;
  const float* bias;  // [size]; null: none
  const void* residual;
  int64_t residual_stride;
  DropoutRule dropout;
  void* out;
  int64_t size;
};

struct BiasDropoutAddBackward {
  simd::ElementType type;
  const void* grad;
  int64_t grad_stride;
  DropoutRule dropout;
  void* grad_x;
  int64_t size;
};

// Rows [begin, end).
void bias_dropout_add_forward_rows(const BiasDropoutAddForward& args, int64_t begin, int64_t end);

// Rows [begin, end). grad_bias: overwritten by the sum of their grad_x; null: not wanted.
void bias_dropout_add_backward_rows(
    const BiasDropoutAddBackward& args, int64_t begin, int64_t end, float* grad_bias);

}  // namespace mindspeed::ops
