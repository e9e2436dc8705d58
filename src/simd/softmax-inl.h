// SPDX-License-Identifier: Apache-2.0
// The softmax of a row of float32, included once a target by cpu_kernel.cpp files.
#if defined(MINDSPEED_SIMD_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MINDSPEED_SIMD_SOFTMAX_INL_H_
#undef MINDSPEED_SIMD_SOFTMAX_INL_H_
#else
#define MINDSPEED_SIMD_SOFTMAX_INL_H_
#endif

#include <algorithm>
#include <limits>

#include "simd/exponential-inl.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::simd::HWY_NAMESPACE {

// A score that gets no weight.
inline constexpr float kLeftOut = -std::numeric_limits<float>::infinity();

// Room for `size` scores in whole vectors.
inline size_t padded_size(size_t size) {
  const size_t lanes = hn::Lanes(FloatTag());
  return (size + lanes - 1) / lanes * lanes;
}

// Turns scores[0, size) into e^(score - max) / sum, in place. There is room for padded_size(size)
// scores; the padding comes out as zero. A NaN makes every score of the row NaN.
inline void softmax_in_place(float* scores, size_t size) {
  const FloatTag d;
  const size_t whole = padded_size(size);
  std::fill(scores + size, scores + whole, kLeftOut);
  auto maxima = hn::Set(d, kLeftOut);
  for_each_vector(
      whole, [&](auto access, size_t i) { maxima = hn::Max(access.load(d, scores + i), maxima); });
  const auto maximum = hn::MaxOfLanes(d, maxima);
  const float sum = sum_over(whole, [&](auto access, size_t i) {
    const auto weight = exponential(d, hn::Sub(access.load(d, scores + i), maximum));
    access.store(weight, d, scores + i);
    return weight;
  });
  const auto share = hn::Set(d, 1.0F / sum);
  for_each_vector(whole, [&](auto access, size_t i) {
    access.store(hn::Mul(access.load(d, scores + i), share), d, scores + i);
  });
}

}  // namespace mindspeed::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
