// SPDX-License-Identifier: Apache-2.0
// Rows of y = f(gate) * up, what swiglu and geglu share. Torch-free. Strides count elements between
// rows; outputs are contiguous.
#pragma once

#include <cstdint>

#include "simd/element_type.h"

namespace mindspeed::ops {

struct GatedForward {
  simd::ElementType type;
  const void* gate;
  int64_t gate_stride;
  const void* up;
  int64_t up_stride;
  void* out;
  int64_t size;  // of a row
};

struct GatedBackward {
  simd::ElementType type;
  const void* grad;
  int64_t grad_stride;
  const void* gate;
  int64_t gate_stride;
  const void* up;
  int64_t up_stride;
  void* grad_gate;
  void* grad_up;
  int64_t size;
};

// Rows [begin, end).
using GatedForwardKernel = void (*)(const GatedForward&, int64_t begin, int64_t end);
using GatedBackwardKernel = void (*)(const GatedBackward&, int64_t begin, int64_t end);

}  // namespace mindspeed::ops
