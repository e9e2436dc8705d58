// SPDX-License-Identifier: Apache-2.0
// RMSNorm over rows, with or without the residual addition before it (add_rms_norm). Torch-free.
// Strides count elements between rows; rows without a stride are contiguous.
#pragma once

#include <cstdint>

#include "simd/element_type.h"

namespace mindspeed::ops {

struct RmsNormForward {
  simd::ElementType type;  // of x, residual, sum, out
  const void* x;
  int64_t x_stride;
  const void* residual;  // null: no addition, sum unused
  int64_t residual_stride;
  const float* weight;
  void* sum;  // x + residual as stored, which is what gets normalised
  void* out;
  float* rstd;   // one a row: 1 / sqrt(mean(x^2) + eps)
  int64_t size;  // of a row
  float eps;
};

struct RmsNormBackward {
  simd::ElementType type;  // of grad, x, grad_sum, grad_x
  const void* grad;
  int64_t grad_stride;
  const void* grad_sum;  // gradient that reaches x past the norm; null: none
  int64_t grad_sum_stride;
  const void* x;  // what was normalised
  int64_t x_stride;
  const float* weight;
  const float* rstd;
  void* grad_x;
  int64_t size;
};

// Rows [begin, end).
void rms_norm_forward_rows(const RmsNormForward& args, int64_t begin, int64_t end);
// The same, and their share of the weight's gradient, written to grad_weight[size].
void rms_norm_backward_rows(
    const RmsNormBackward& args, int64_t begin, int64_t end, float* grad_weight);

}  // namespace mindspeed::ops
