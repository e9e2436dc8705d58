// SPDX-License-Identifier: Apache-2.0
// Rows of  y = f(gate + bias) (up + bias)  or  y = f(gate + bias): what every activation operator
// shares. Torch-free. Strides count elements between rows.
#pragma once

#include <cstdint>

#include "simd/element_type.h"

namespace mindspeed::ops {

enum class Activation : uint8_t { kSilu, kGelu, kGeluTanh };

struct ActivationInputs {
  simd::ElementType type;
  Activation activation;
  const void* gate;
  int64_t gate_stride;
  const void* up;  // null: no factor
  int64_t up_stride;
  const float* gate_bias;  // [size]; null: none
  const float* up_bias;
  int64_t size;  // of a row
};

struct ActivationGradients {
  const void* grad;
  int64_t grad_stride;
  void* grad_gate;
  int64_t grad_gate_stride;
  void* grad_up;  // null like up
  int64_t grad_up_stride;
};

// Rows [begin, end) into the contiguous out.
void activation_forward_rows(const ActivationInputs& inputs, void* out, int64_t begin, int64_t end);

// Rows [begin, end). grad_bias: overwritten by the rows' sums of grad_gate, then of grad_up where
// there is one; null: not wanted.
void activation_backward_rows(
    const ActivationInputs& inputs,
    const ActivationGradients& gradients,
    int64_t begin,
    int64_t end,
    float* grad_bias);

}  // namespace mindspeed::ops
