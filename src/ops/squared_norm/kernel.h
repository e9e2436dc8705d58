// SPDX-License-Identifier: Apache-2.0
// Sum of squares of a run of elements. Torch-free.
#pragma once

#include <cstdint>

#include "simd/element_type.h"

namespace mindspeed::ops {

struct SquaredNormRun {
  simd::ElementType type;
  const void* data;
  int64_t size;
};

// Squares and sums in float64.
double squared_norm_run(const SquaredNormRun& run);

}  // namespace mindspeed::ops
