// SPDX-License-Identifier: Apache-2.0
// Float vectors from and to arrays of float32, bfloat16 and float16, for kernels that compute in float32.
// Included once per target after hwy/highway.h, like Highway's own -inl.h files.
#if defined(MINDSPEED_SIMD_FLOAT_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MINDSPEED_SIMD_FLOAT_VECTORS_INL_H_
#undef MINDSPEED_SIMD_FLOAT_VECTORS_INL_H_
#else
#define MINDSPEED_SIMD_FLOAT_VECTORS_INL_H_
#endif

#include <cstring>
#include "hwy/highway.h"

#include "simd/element_type.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;

HWY_INLINE FloatVector load(FloatTag d, const float* p) { return hn::LoadU(d, p); }

HWY_INLINE FloatVector load(FloatTag d, const BFloat16* p) {
  const hn::Rebind<uint16_t, FloatTag> d16;
  const hn::Rebind<uint32_t, FloatTag> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

HWY_INLINE FloatVector load(FloatTag d, const Float16* p) {
  const hn::Rebind<hwy::float16_t, FloatTag> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
}

HWY_INLINE void store(FloatTag d, FloatVector v, float* p) { hn::StoreU(v, d, p); }

// Round to nearest even; a NaN stays one because its top mantissa bit is kept set.
HWY_INLINE void store(FloatTag d, FloatVector v, BFloat16* p) {
  const hn::Rebind<uint16_t, FloatTag> d16;
  const hn::Rebind<uint32_t, FloatTag> d32;
  const auto bits = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7FFF))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d32, 0x40));
  const auto is_nan = hn::RebindMask(d32, hn::IsNaN(v));
  const auto chosen = hn::IfThenElse(is_nan, quiet, rounded);
  hn::StoreU(hn::TruncateTo(d16, chosen), d16, reinterpret_cast<uint16_t*>(p));
  (void)d;
}

HWY_INLINE void store(FloatTag d, FloatVector v, Float16* p) {
  const hn::Rebind<hwy::float16_t, FloatTag> d16;
  hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(p));
  (void)d;
}

// The first `count` lanes from memory, the others zero; reads nothing beyond.
template <typename T>
HWY_INLINE FloatVector load_first(FloatTag d, const T* p, size_t count) {
  HWY_ALIGN T buffer[hn::MaxLanes(FloatTag())] = {};
  std::memcpy(buffer, p, count * sizeof(T));
  return load(d, buffer);
}

template <typename T>
HWY_INLINE void store_first(FloatTag d, FloatVector v, T* p, size_t count) {
  HWY_ALIGN T buffer[hn::MaxLanes(FloatTag())];
  store(d, v, buffer);
  std::memcpy(p, buffer, count * sizeof(T));
}

HWY_INLINE float sum_of_lanes(FloatTag d, FloatVector v) { return hn::GetLane(hn::SumOfLanes(d, v)); }

// Calls body(offset, count) over [0, size) in steps of a vector; count < lanes only in the last step.
template <typename Body>
HWY_INLINE void for_each_vector(FloatTag d, size_t size, const Body& body) {
  const size_t lanes = hn::Lanes(d);
  size_t offset = 0;
  for (; offset + lanes <= size; offset += lanes) body(offset, lanes);
  if (offset < size) body(offset, size - offset);
}

template <typename T>
HWY_INLINE FloatVector load_upto(FloatTag d, const T* p, size_t count) {
  return HWY_LIKELY(count == hn::Lanes(d)) ? load(d, p) : load_first(d, p, count);
}

template <typename T>
HWY_INLINE void store_upto(FloatTag d, FloatVector v, T* p, size_t count) {
  if (HWY_LIKELY(count == hn::Lanes(d))) {
    store(d, v, p);
  } else {
    store_first(d, v, p, count);
  }
}

// e^x, x clamped to [-87.3, 88.7]: 2^n * polynomial on |r| <= ln2/2 (Cephes coefficients), about 1 ulp.
HWY_INLINE FloatVector exponential(FloatTag d, FloatVector x) {
  const hn::RebindToSigned<FloatTag> di;
  x = hn::Max(hn::Min(x, hn::Set(d, 88.7f)), hn::Set(d, -87.3f));
  const auto n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504088896341f)));
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto p = hn::Set(d, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::MulAdd(hn::Mul(r, r), p, hn::Add(r, hn::Set(d, 1.0f)));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  return hn::Mul(p, hn::BitCast(d, exponent));
}

}  // namespace HWY_NAMESPACE
}  // namespace mindspeed::simd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
