// SPDX-License-Identifier: Apache-2.0
// One AdamW step over a run of blocks with quantised moments. Torch-free.
#pragma once

#include <cstdint>

#include "ops/adamw/kernel.h"

namespace mindspeed::ops {

struct AdamW8bitRun {
  simd::ElementType type;  // of param and grad
  void* param;
  const void* grad;
  float* weight;  // the master, or param itself where that is float32
  uint8_t* exp_avg;
  float* exp_avg_scale;  // one a block
  uint8_t* exp_avg_sq;
  float* exp_avg_sq_scale;  // one a block
  int64_t size;             // the run begins with a block; its last one may be shorter
};

void adamw_8bit_run(const AdamW8bitRun& run, const AdamWFactors& factors);

}  // namespace mindspeed::ops
