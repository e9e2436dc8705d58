// SPDX-License-Identifier: Apache-2.0
// LayerNorm over rows. Torch-free. Strides count elements between rows; rows without a stride are
// contiguous.
#pragma once

#include <cstdint>

#include "simd/element_type.h"

namespace mindspeed::ops {

struct LayerNormForward {
  simd::ElementType type;  // of x, out
  const void* x;
  int64_t x_stride;
  const float* weight;
  const float* bias;  // null: none
  void* out;
  float* mean;   // one a row
  float* rstd;   // one a row: 1 / sqrt(variance + eps)
  int64_t size;  // of a row
  float eps;
};

struct LayerNormBackward {
  simd::ElementType type;  // of grad, x, grad_x
  const void* grad;
  int64_t grad_stride;
  const void* x;
  int64_t x_stride;
  const float* weight;
  const float* mean;
  const float* rstd;
  void* grad_x;
  int64_t size;
};

// Rows [begin, end).
void layer_norm_forward_rows(const LayerNormForward& args, int64_t begin, int64_t end);
// The same, and their share of the gradients of weight (grad_affine[0, size)) and bias
// (grad_affine[size, 2 size)).
void layer_norm_backward_rows(
    const LayerNormBackward& args, int64_t begin, int64_t end, float* grad_affine);

}  // namespace mindspeed::ops
