// SPDX-License-Identifier: Apache-2.0
// One Lion step over a run of elements. Torch-free.
#pragma once

#include <cstdint>

#include "simd/element_type.h"

namespace mindspeed::ops {

struct LionFactors {
  float grad_scale;
  float keep;  // 1 - lr * weight_decay
  float lr;
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
};

struct LionRun {
  simd::ElementType type;  // of param and grad
  void* param;
  const void* grad;
  float* weight;  // the master, or param itself where that is float32
  float* exp_avg;
  int64_t size;
};

void lion_run(const LionRun& run, const LionFactors& factors);

}  // namespace mindspeed::ops
