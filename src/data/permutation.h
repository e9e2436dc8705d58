// SPDX-License-Identifier: Apache-2.0
// Order from a key, without an array: a Feistel network over the next even power of two, walked
// until the result falls into range (at most 4 steps on average). Luby & Rackoff 1988; Black &
// Rogaway 2002.
#pragma once
#include <bit>
#include <cstdint>

namespace mindspeed::data {

// A well mixed 64-bit value of two (splitmix64's finaliser, twice).
inline uint64_t mix(uint64_t a, uint64_t b) {
  const auto finalise = [](uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
  };
  return finalise(finalise(a + 0x9E3779B97F4A7C15ull) ^ (b + 0x632BE59BD9B4E019ull));
}

// Uniform in [0, size), up to a bias of size / 2^64.
inline uint64_t uniform(uint64_t random, uint64_t size) {
  return uint64_t((static_cast<unsigned __int128>(random) * size) >> 64);
}

class Permutation {
 public:
  // Of 0 .. size - 1; size must be at least 1.
  Permutation(uint64_t key, uint64_t size)
      : key_(key), size_(size), half_bits_((std::bit_width(size - 1) + 1) / 2) {}

  uint64_t operator()(uint64_t index) const {
    if (size_ == 1) return 0;
    do {
      index = round_trip(index);
    } while (index >= size_);
    return index;
  }

 private:
  uint64_t round_trip(uint64_t value) const {
    const uint64_t mask = (uint64_t(1) << half_bits_) - 1;
    uint64_t left = value >> half_bits_, right = value & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const uint64_t next = left ^ (mix(key_ + round, right) & mask);
      left = right;
      right = next;
    }
    return (left << half_bits_) | right;
  }

  uint64_t key_, size_;
  int half_bits_;
};

}  // namespace mindspeed::data
