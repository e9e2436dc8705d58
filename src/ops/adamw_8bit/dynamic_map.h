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

// Magnitudes in ascending order, 0 first and 1 last, and the way from a magnitude to the nearest.
template <int kSize>
struct DynamicMap {
  // The bits of a float32 from 2^-23 to 1 without the lower 16 number 23 * 128 + 1 buckets, so
  // narrow that each holds at most one bound between neighbours.
  static constexpr uint32_t kFirstBits = 104U << 23;  // 2^-23, below the first bound
  static constexpr uint32_t kBuckets = 23 * 128 + 1;

  std::array<float, kSize> magnitudes{};
  std::array<float, kSize> bounds{};  // halfway to the next; the last is beyond every magnitude
  std::array<uint8_t, kBuckets> at_least{};  // number of bounds below a bucket

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
      const float edge = std::bit_cast<float>(kFirstBits + (bucket << 16));
      while (bounds[below] < edge) ++below;
      at_least[bucket] = static_cast<uint8_t>(below);
    }
  }

  // Whether nearest() needs to look at one bound only.
  constexpr bool one_bound_a_bucket() const {
    for (uint32_t bucket = 1; bucket < kBuckets; ++bucket) {
      if (at_least[bucket] > at_least[bucket - 1] + 1) return false;
    }
    return bounds[0] >= std::bit_cast<float>(kFirstBits);
  }

  // The number of the nearest magnitude to one in [0, 1]; the smaller of two that are equally near.
  int nearest(float magnitude) const {
    const uint32_t bits = std::bit_cast<uint32_t>(magnitude);
    const uint32_t bucket = bits < kFirstBits ? 0 : (bits - kFirstBits) >> 16;
    const int low = at_least[bucket < kBuckets ? bucket : kBuckets - 1];  // a NaN is beyond
    return low + (magnitude > bounds[low] ? 1 : 0);
  }
};

inline constexpr DynamicMap<129> kSignedMagnitudes(1);
inline constexpr DynamicMap<256> kUnsignedMagnitudes(2);
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

inline uint8_t signed_code(float value) {
  const int nearest = kSignedMagnitudes.nearest(value < 0 ? -value : value);
  const int place = value < 0 ? -(nearest < kSignedZero ? nearest : kSignedZero) : nearest;
  return static_cast<uint8_t>(kSignedZero + place);
}

inline uint8_t unsigned_code(float value) {
  return static_cast<uint8_t>(kUnsignedMagnitudes.nearest(value));
}

}  // namespace mindspeed::ops
