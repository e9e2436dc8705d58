// SPDX-License-Identifier: Apache-2.0
// What can be set of a Lion step.
#pragma once

#include <tuple>

namespace mindspeed::ops {

struct LionSettings {
  double lr;
  double beta1;  // of the mean that gives the sign
  double beta2;  // of the mean that is kept
  double weight_decay;
  double grad_scale = 1.0;  // multiplies the gradients first, such as clipping's factor

  using Flat = std::tuple<double, double, double, double, double>;
  Flat flat() const { return {lr, beta1, beta2, weight_decay, grad_scale}; }
};

}  // namespace mindspeed::ops
