// SPDX-License-Identifier: Apache-2.0
// What can be set of a Muon step.
#pragma once

#include <cstdint>
#include <tuple>

namespace mindspeed::ops {

struct MuonSettings {
  double lr;
  double momentum;
  bool nesterov;
  double weight_decay;
  int64_t newton_schulz_steps;
  // The learning rate of an [M, N] matrix is lr times: true, 0.2 sqrt(max(M, N)), which gives
  // updates the size of AdamW's (Liu et al. 2025, arXiv 2502.16982); false, sqrt(max(1, M / N)) as
  // Jordan has it.
  bool match_adamw_rms;
  double grad_scale = 1.0;  // multiplies the gradients first, such as clipping's factor

  using Flat = std::tuple<double, double, bool, double, int64_t, bool, double>;
  Flat flat() const {
    return {lr, momentum, nesterov, weight_decay, newton_schulz_steps, match_adamw_rms, grad_scale};
  }
};

}  // namespace mindspeed::ops
