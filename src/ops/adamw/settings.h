// SPDX-License-Identifier: Apache-2.0
// What can be set of an AdamW step.
#pragma once

#include <cstdint>
#include <tuple>

namespace mindspeed::ops {

struct AdamWSettings {
  double lr;
  double beta1;
  double beta2;
  double eps;
  double weight_decay;
  int64_t step;             // this one's number, from 1
  double grad_scale = 1.0;  // multiplies the gradients first, such as clipping's factor

  using Flat = std::tuple<double, double, double, double, double, int64_t, double>;
  Flat flat() const { return {lr, beta1, beta2, eps, weight_decay, step, grad_scale}; }
};

}  // namespace mindspeed::ops
