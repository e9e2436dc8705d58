// SPDX-License-Identifier: Apache-2.0
// Learning rates: linear warm-up to the peak, then one of the kinds below. A pure function of the
// step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "export.h"

namespace mindspeed::train {

/// With progress p from 0 (end of warm-up) to 1 (last step), the rate is minimum + (peak - minimum)
/// * share:
///   constant  share 1
///   cosine    share (1 + cos(pi p)) / 2
///   linear    share 1 - p
///   wsd       share 1, then linear over the last ceil(decay_fraction * total_steps) steps (Hu et
///   al. 2024)
struct Schedule {
  std::string kind = "cosine";
  double peak = 3e-4;
  double minimum = 0;
  int64_t warmup_steps = 0;
  int64_t total_steps = 1;
  double decay_fraction = 0.2;  // wsd only
};

/// Learning rate of step 1, 2, ..., total_steps; later steps have the last one's.
/// Throws std::invalid_argument for an unknown kind, naming the known ones.
MINDSPEED_API double learning_rate(const Schedule& schedule, int64_t step);

/// The known kinds.
MINDSPEED_API std::vector<std::string> schedule_kinds();

}  // namespace mindspeed::train
