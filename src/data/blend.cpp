// SPDX-License-Identifier: Apache-2.0
// Shares are 64-bit fixed point, so that the counts are exact whole numbers on every machine.
#include "data/blend.h"

#include <cmath>
#include <string>

#include "data/error.h"
#include "data/permutation.h"

namespace mindspeed::data {

Blend::Blend(const std::vector<double>& weights, uint64_t seed) {
  double rest = 0;
  for (const double weight : weights) {
    if (!(weight >= 0) || !std::isfinite(weight)) {
      throw Error("data: weights must be finite and not negative, got " + std::to_string(weight));
    }
    rest += weight;
  }
  if (!(rest > 0)) throw Error("data: at least one corpus must have a positive weight");
  size_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) last = i;
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    const double share = rest > 0 ? std::min(weights[i] / rest, 1.0) : 0.0;
    const bool all = i == last;
    splits_.push_back(
        {all || share >= 1.0 ? UINT64_MAX : uint64_t(std::ldexp(share, 64)), mix(seed, i), all});
    rest -= weights[i];
  }
}

Blend::Place Blend::locate(uint64_t sample) const {
  for (size_t i = 0;; ++i) {
    const Split& split = splits_[i];
    if (split.all) return {i, sample};
    const auto taken = [&](uint64_t count) {
      return uint64_t((static_cast<unsigned __int128>(count) * split.share + split.phase) >> 64);
    };
    const uint64_t before = taken(sample);
    if (taken(sample + 1) > before) return {i, before};
    sample -= before;
  }
}

}  // namespace mindspeed::data
