// SPDX-License-Identifier: Apache-2.0
// One AdamW step over a run of elements. Torch-free.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/adamw/settings.h"
#include "simd/element_type.h"

namespace mindspeed::ops {

// Factors as torch's single-tensor AdamW rounds them: computed in float64, applied in float32.
struct AdamWFactors {
  explicit AdamWFactors(const AdamWSettings& settings)
      : grad_scale(static_cast<float>(settings.grad_scale)),
        keep(static_cast<float>(1 - settings.lr * settings.weight_decay)),
        beta2(static_cast<float>(settings.beta2)),
        one_minus_beta1(static_cast<float>(1 - settings.beta1)),
        one_minus_beta2(static_cast<float>(1 - settings.beta2)),
        bias_correction2_root(
            static_cast<float>(std::sqrt(1 - std::pow(settings.beta2, settings.step)))),
        eps(static_cast<float>(settings.eps)),
        minus_step_size(
            static_cast<float>(-settings.lr / (1 - std::pow(settings.beta1, settings.step)))) {}

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
  simd::ElementType type;  // of param and grad
  void* param;
  const void* grad;
  float* weight;  // the master, or param itself where that is float32
  float* exp_avg;
  float* exp_avg_sq;
  int64_t size;
};

void adamw_run(const AdamWRun& run, const AdamWFactors& factors);

}  // namespace mindspeed::ops
