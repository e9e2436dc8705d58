// SPDX-License-Identifier: Apache-2.0
// Dropout by a counter instead of a stored mask: whether element (row, column) is dropped is a hash
// of the two and the seed, so backward makes the same mask again. Included once a target by
// cpu_kernel.cpp files.
#if defined(MINDSPEED_SIMD_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MINDSPEED_SIMD_DROPOUT_INL_H_
#undef MINDSPEED_SIMD_DROPOUT_INL_H_
#else
#define MINDSPEED_SIMD_DROPOUT_INL_H_
#endif

#include <cstdint>

#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::simd::HWY_NAMESPACE {

using DropoutTag = hn::RebindToUnsigned<FloatTag>;

// A 32-bit finaliser with low bias (Wellons 2018, "lowbias32").
inline uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return x;
}

// What the columns of one row share.
inline uint32_t dropout_row_key(uint64_t seed, uint64_t row) {
  const auto low = [](uint64_t value) { return static_cast<uint32_t>(value); };
  const uint32_t by_seed = mix(low(seed) ^ mix(low(seed >> 32)));
  return mix(by_seed ^ mix(low(row >> 32) * 0x9E3779B9U + mix(low(row))));
}

// For columns from first_column on: 0 where the hash lies below the threshold, else keep_factor.
HWY_INLINE FloatVector dropout_factors(
    FloatTag d, uint32_t row_key, uint32_t first_column, uint32_t threshold, float keep_factor) {
  const DropoutTag d32;
  const hn::RebindToSigned<FloatTag> signed32;
  const auto sign = hn::Set(d32, 0x80000000U);  // unsigned comparison through signed lanes
  auto x = hn::Mul(hn::Iota(d32, first_column), hn::Set(d32, 0x9E3779B1U));
  x = hn::Xor(x, hn::Set(d32, row_key));
  x = hn::Xor(x, hn::ShiftRight<16>(x));
  x = hn::Mul(x, hn::Set(d32, 0x7feb352dU));
  x = hn::Xor(x, hn::ShiftRight<15>(x));
  x = hn::Mul(x, hn::Set(d32, 0x846ca68bU));
  x = hn::Xor(x, hn::ShiftRight<16>(x));
  const auto limit = hn::Xor(hn::Set(d32, threshold), sign);
  const auto dropped =
      hn::Lt(hn::BitCast(signed32, hn::Xor(x, sign)), hn::BitCast(signed32, limit));
  return hn::IfThenZeroElse(hn::RebindMask(d, dropped), hn::Set(d, keep_factor));
}

}  // namespace mindspeed::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
