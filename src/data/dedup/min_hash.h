// SPDX-License-Identifier: Apache-2.0
// MinHash: a signature of 128 numbers for a set of shingles. The share of equal numbers of two
// signatures estimates the sets' Jaccard similarity J with standard deviation sqrt(J (1 - J) / 128)
// (0.035 at J = 0.8). Two documents become candidates when all 6 numbers of one of 21 bands agree:
// probability 1 - (1 - J^6)^21, that is 0.28 at J = 0.5, 0.93 at 0.7, 0.998 at 0.8.
// Broder (1997), On the resemblance and containment of documents.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mindspeed::data {

inline constexpr size_t kNumHashes = 128;
inline constexpr size_t kNumBands = 21;
inline constexpr size_t kBandRows = 6;
static_assert(kNumBands * kBandRows <= kNumHashes);

using Signature = std::array<uint32_t, kNumHashes>;

// The same on every machine. All UINT32_MAX for the empty set.
Signature min_hash(std::span<const uint32_t> shingles);

// Of one band's numbers.
uint64_t band_hash(const Signature& signature, size_t band);

// Equal numbers of the two, 0 to kNumHashes.
uint32_t num_equal(const Signature& a, const Signature& b);

}  // namespace mindspeed::data
