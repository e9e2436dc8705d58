// SPDX-License-Identifier: Apache-2.0
// Vectors of float32 from rows of any element type, included once a target by cpu_kernel.cpp files.
// A loop body is written once and gets an access: Whole for full vectors, Part for the row's last,
// shorter one.
#if defined(MINDSPEED_SIMD_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MINDSPEED_SIMD_VECTOR_INL_H_
#undef MINDSPEED_SIMD_VECTOR_INL_H_
#else
#define MINDSPEED_SIMD_VECTOR_INL_H_
#endif

#include <cstddef>
#include <cstring>

#include "hwy/highway.h"
#include "simd/element_type.h"
#include "simd/float16.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;

HWY_INLINE FloatVector load_vector(FloatTag d, const float* from) {
  return hn::LoadU(d, from);
}

HWY_INLINE FloatVector load_vector(FloatTag d, const BFloat16* from) {
  const hn::Rebind<uint16_t, FloatTag> d16;
  const hn::RebindToUnsigned<FloatTag> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

HWY_INLINE FloatVector load_vector(FloatTag d, const Float16* from) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  const hn::Rebind<hwy::float16_t, FloatTag> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
#else
  HWY_ALIGN float values[hn::MaxLanes(d)];
  for (size_t i = 0; i < hn::Lanes(d); ++i) values[i] = to_float(from[i]);
  return hn::Load(d, values);
#endif
}

HWY_INLINE void store_vector(FloatVector v, FloatTag d, float* to) {
  hn::StoreU(v, d, to);
}

// Rounds to nearest even; a NaN stays a (quiet) NaN.
HWY_INLINE void store_vector(FloatVector v, [[maybe_unused]] FloatTag d, BFloat16* to) {
  const hn::Rebind<uint16_t, FloatTag> d16;
  const hn::RebindToUnsigned<FloatTag> d32;
  const hn::RebindToSigned<FloatTag> signed32;
  const auto bits = hn::BitCast(d32, v);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto bias = hn::Add(hn::Set(d32, 0x7fff), hn::And(upper, hn::Set(d32, 1)));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, bias));
  const auto is_nan = hn::RebindMask(d32, hn::IsNaN(v));
  const auto chosen = hn::IfThenElse(is_nan, hn::Or(upper, hn::Set(d32, 0x40)), rounded);
  hn::StoreU(
      hn::DemoteTo(d16, hn::BitCast(signed32, chosen)), d16, reinterpret_cast<uint16_t*>(to));
}

HWY_INLINE void store_vector(FloatVector v, [[maybe_unused]] FloatTag d, Float16* to) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  const hn::Rebind<hwy::float16_t, FloatTag> d16;
  hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(to));
#else
  HWY_ALIGN float values[hn::MaxLanes(d)];
  hn::Store(v, d, values);
  for (size_t i = 0; i < hn::Lanes(d); ++i) to[i] = to_float16(values[i]);
#endif
}

// All lanes lie in the row.
struct Whole {
  template <class T>
  HWY_INLINE FloatVector load(FloatTag d, const T* from) const {
    return load_vector(d, from);
  }
  template <class T>
  HWY_INLINE void store(FloatVector v, FloatTag d, T* to) const {
    store_vector(v, d, to);
  }
};

// Only the first `count` lanes lie in the row; the others load as zero.
struct Part {
  size_t count;

  template <class T>
  HWY_INLINE FloatVector load(FloatTag d, const T* from) const {
    T lanes[hn::MaxLanes(FloatTag())] = {};
    std::memcpy(lanes, from, count * sizeof(T));
    return load_vector(d, lanes);
  }
  template <class T>
  HWY_INLINE void store(FloatVector v, FloatTag d, T* to) const {
    T lanes[hn::MaxLanes(FloatTag())];
    store_vector(v, d, lanes);
    std::memcpy(to, lanes, count * sizeof(T));
  }
};

// Calls body(access, index) for every vector of a row of `size` elements.
template <class Body>
HWY_INLINE void for_each_vector(size_t size, const Body& body) {
  const size_t lanes = hn::Lanes(FloatTag());
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) body(Whole{}, i);
  if (i < size) body(Part{size - i}, i);
}

// Sum over a row of what body(access, index) gives; lanes beyond the row must come out zero. Four
// sums run side by side: one alone would wait for each addition's latency.
template <class Body>
HWY_INLINE float sum_over(size_t size, const Body& body) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  FloatVector sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  size_t i = 0;
  for (; i + 4 * lanes <= size; i += 4 * lanes) {
    sum0 = hn::Add(sum0, body(Whole{}, i));
    sum1 = hn::Add(sum1, body(Whole{}, i + lanes));
    sum2 = hn::Add(sum2, body(Whole{}, i + 2 * lanes));
    sum3 = hn::Add(sum3, body(Whole{}, i + 3 * lanes));
  }
  for (; i + lanes <= size; i += lanes) sum0 = hn::Add(sum0, body(Whole{}, i));
  if (i < size) sum1 = hn::Add(sum1, body(Part{size - i}, i));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
}

}  // namespace mindspeed::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MINDSPEED_SIMD_VECTOR_INL_H_
