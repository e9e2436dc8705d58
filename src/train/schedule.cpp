// SPDX-License-Identifier: Apache-2.0
#include "train/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace mindspeed::train {
namespace {

// A kind: the last step at the peak, and the share of the peak at progress 0 to 1 from there to the
// last step.
struct Kind {
  const char* name;
  int64_t (*last_peak_step)(const Schedule& schedule);
  double (*share)(double progress);
};

int64_t end_of_warmup(const Schedule& schedule) {
  return schedule.warmup_steps;
}

int64_t start_of_decay(const Schedule& schedule) {
  const double decay_steps =
      std::ceil(schedule.decay_fraction * static_cast<double>(schedule.total_steps));
  return std::max(schedule.warmup_steps, schedule.total_steps - static_cast<int64_t>(decay_steps));
}

constexpr std::array<Kind, 4> kKinds = {{
    {"constant", &end_of_warmup, [](double) { return 1.0; }},
    {"cosine", &end_of_warmup, [](double p) { return 0.5 * (1 + std::cos(std::numbers::pi * p)); }},
    {"linear", &end_of_warmup, [](double p) { return 1 - p; }},
    {"wsd", &start_of_decay, [](double p) { return 1 - p; }},
}};

const Kind& find_kind(const std::string& name) {
  std::string known;
  for (const Kind& kind : kKinds) {
    if (name == kind.name) return kind;
    known += std::string(known.empty() ? "" : ", ") + kind.name;
  }
  throw std::invalid_argument("schedule ('" + name + "') must be one of: " + known);
}

}  // namespace

double learning_rate(const Schedule& schedule, int64_t step) {
  const Kind& kind = find_kind(schedule.kind);
  if (step <= schedule.warmup_steps) {
    return schedule.peak * static_cast<double>(step) / static_cast<double>(schedule.warmup_steps);
  }
  const int64_t start = kind.last_peak_step(schedule);
  if (step <= start) return schedule.peak;
  const auto steps = static_cast<double>(std::max<int64_t>(1, schedule.total_steps - start));
  const double progress = std::min(1.0, static_cast<double>(step - start) / steps);
  return schedule.minimum + (schedule.peak - schedule.minimum) * kind.share(progress);
}

std::vector<std::string> schedule_kinds() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

}  // namespace mindspeed::train
