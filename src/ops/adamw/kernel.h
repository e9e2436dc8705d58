// SPDX-License-Identifier: Apache-2.0
// One AdamW step over a run of elements. Torch-free.
#pragma once

#include <cstdint>

namespace mindspeed::ops {

// Factors as torch's single-tensor AdamW rounds them: computed in float64, applied in float32.
struct AdamWFactors {
  float grad_scale;
  float keep;  // 1 - lr * weight_decay
  float beta2;
  float one_minus_beta1;
  float one_minus_beta2;
  float bias_correction2_root;
  float eps;
  float minus_step_size;  // -lr / (1 - beta1^step)
};

struct AdamWRun {
  float* param;
  const float* grad;
  float* exp_avg;
  float* exp_avg_sq;
  int64_t size;
};

void adamw_run(const AdamWRun& run, const AdamWFactors& factors);

}  // namespace mindspeed::ops
