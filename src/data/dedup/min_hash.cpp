// SPDX-License-Identifier: Apache-2.0
// Hash i of shingle x is a_i x + b_i mod 2^32 with odd a_i: a permutation of the 32-bit numbers, so
// distinct shingles never tie. Highway picks the instruction set at run time; integers come out
// alike on all.
#include "data/dedup/min_hash.h"

#include <xxhash.h>

#include <algorithm>

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/dedup/min_hash.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::data::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Four vectors of hashes stay in registers while the shingles go by.
void update(
    const uint32_t* shingles,
    size_t count,
    const uint32_t* HWY_RESTRICT factors,
    const uint32_t* HWY_RESTRICT terms,
    uint32_t* HWY_RESTRICT minima) {
  const hn::CappedTag<uint32_t, 32> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < kNumHashes; i += 4 * lanes) {
    const auto factor0 = hn::Load(d, factors + i), factor1 = hn::Load(d, factors + i + lanes);
    const auto factor2 = hn::Load(d, factors + i + 2 * lanes);
    const auto factor3 = hn::Load(d, factors + i + 3 * lanes);
    const auto term0 = hn::Load(d, terms + i), term1 = hn::Load(d, terms + i + lanes);
    const auto term2 = hn::Load(d, terms + i + 2 * lanes);
    const auto term3 = hn::Load(d, terms + i + 3 * lanes);
    auto min0 = hn::Load(d, minima + i), min1 = hn::Load(d, minima + i + lanes);
    auto min2 = hn::Load(d, minima + i + 2 * lanes), min3 = hn::Load(d, minima + i + 3 * lanes);
    for (size_t k = 0; k < count; ++k) {
      const auto x = hn::Set(d, shingles[k]);
      min0 = hn::Min(min0, hn::Add(hn::Mul(x, factor0), term0));
      min1 = hn::Min(min1, hn::Add(hn::Mul(x, factor1), term1));
      min2 = hn::Min(min2, hn::Add(hn::Mul(x, factor2), term2));
      min3 = hn::Min(min3, hn::Add(hn::Mul(x, factor3), term3));
    }
    hn::Store(min0, d, minima + i);
    hn::Store(min1, d, minima + i + lanes);
    hn::Store(min2, d, minima + i + 2 * lanes);
    hn::Store(min3, d, minima + i + 3 * lanes);
  }
}

}  // namespace mindspeed::data::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::data {
namespace {

HWY_EXPORT(update);

struct Permutations {
  alignas(128) uint32_t factors[kNumHashes];
  alignas(128) uint32_t terms[kNumHashes];
};

constexpr Permutations make_permutations() {
  Permutations permutations{};
  uint64_t state = 0;
  const auto next = [&state] {  // splitmix64
    uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return uint32_t((z ^ (z >> 31)) >> 32);
  };
  for (size_t i = 0; i < kNumHashes; ++i) {
    permutations.factors[i] = next() | 1;
    permutations.terms[i] = next();
  }
  return permutations;
}

constexpr Permutations kPermutations = make_permutations();

}  // namespace

Signature min_hash(std::span<const uint32_t> shingles) {
  alignas(128) uint32_t minima[kNumHashes];
  std::fill(std::begin(minima), std::end(minima), UINT32_MAX);
  constexpr size_t kBlock = 4096;  // shingles that stay in cache while all hashes go over them
  for (size_t start = 0; start < shingles.size(); start += kBlock) {
    HWY_DYNAMIC_DISPATCH(update)
    (shingles.data() + start,
     std::min(kBlock, shingles.size() - start),
     kPermutations.factors,
     kPermutations.terms,
     minima);
  }
  Signature signature;
  std::copy(std::begin(minima), std::end(minima), signature.begin());
  return signature;
}

uint64_t band_hash(const Signature& signature, size_t band) {
  return XXH3_64bits(signature.data() + band * kBandRows, kBandRows * sizeof(uint32_t));
}

uint32_t num_equal(const Signature& a, const Signature& b) {
  uint32_t count = 0;
  for (size_t i = 0; i < kNumHashes; ++i) count += a[i] == b[i];
  return count;
}

}  // namespace mindspeed::data
#endif  // HWY_ONCE
