// SPDX-License-Identifier: Apache-2.0
// The dynamic quantisation map of Dettmers et al. 2022 (arXiv 2110.02861), as bitsandbytes makes it
// (create_dynamic_map): seven decades, each with twice the values of the one below, 0 and 1. Code i
// stands for the i-th smallest value; a block's values are divided by its largest magnitude first.
// Torch-free, made by the compiler.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace mindspeed::ops {

inline constexpr int64_t kQuantisationBlock = 256;  // elements that share a scale

// kSize magnitudes in ascending order, 0 first and 1 last, and the way from a magnitude to the
// nearest. The bits of a float32 from 2^-23 to 1 with kMantissaBits of the mantissa are buckets, so
// narrow that each holds at most one bound between neighbours. Tables for vectors of 32-bit lanes.
template <int kSize, int kMantissaBits>
struct DynamicMap {
  static constexpr uint32_t kFirstBits = 104U << 23;  // 2^-23, below the first bound
  static constexpr int kShift = 23 - kMantissaBits;
  static constexpr uint32_t kBuckets = (23U << kMantissaBits) + 1;

  std::array<float, kSize> magnitudes{};
  std::array<float, kSize> bounds{};  // halfway to the next; the last is beyond every magnitude
  std::array<int32_t, kBuckets> bounds_below{};  // how many lie below a bucket

  // first_count: values in the lowest decade.
  constexpr explicit DynamicMap(int first_count) {
    int at = 1;
    double decade = 1e-6;
    for (int count = first_count; at < kSize - 1; count *= 2, decade *= 10) {
      for (int i = 0; i < count; ++i) {  // middles of `count` equal parts of [0.1, 1]
        magnitudes[at++] = static_cast<float>(decade * (0.1 + 0.9 * (i + 0.5) / count));
      }
    }
    magnitudes[kSize - 1] = 1.0F;
    for (int i = 0; i + 1 < kSize; ++i) bounds[i] = (magnitudes[i] + magnitudes[i + 1]) / 2;
    bounds[kSize - 1] = 2.0F;
    int below = 0;
    for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
      const float edge = std::bit_cast<float>(kFirstBits + (bucket << kShift));
      while (bounds[below] < edge) ++below;
      bounds_below[bucket] = below;
    }
  }

  // Whether the nearest magnitude needs a look at one bound only.
  constexpr bool one_bound_a_bucket() const {
    for (uint32_t bucket = 1; bucket < kBuckets; ++bucket) {
      if (bounds_below[bucket] > bounds_below[bucket - 1] + 1) return false;
    }
    return bounds[0] >= std::bit_cast<float>(kFirstBits);
  }
};

inline constexpr DynamicMap<129, 6> kSignedMagnitudes(1);
inline constexpr DynamicMap<256, 7> kUnsignedMagnitudes(2);
static_assert(kSignedMagnitudes.one_bound_a_bucket());
static_assert(kUnsignedMagnitudes.one_bound_a_bucket());

// Values by code. Signed: 127 negative ones, 0, 127 positive ones and 1, which has no negative
// twin.
inline constexpr int kSignedZero = 127;
inline constexpr std::array<float, 256> kSignedValues = [] {
  std::array<float, 256> values{};
  for (int i = 0; i < 129; ++i) values[kSignedZero + i] = kSignedMagnitudes.magnitudes[i];
  for (int i = 1; i <= kSignedZero; ++i) values[kSignedZero - i] = -kSignedMagnitudes.magnitudes[i];
  return values;
}();
inline constexpr const std::array<float, 256>& kUnsignedValues = kUnsignedMagnitudes.magnitudes;

}  // namespace mindspeed::ops
