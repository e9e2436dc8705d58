// SPDX-License-Identifier: Apache-2.0
// e^x for float32 vectors, included once a target by cpu_kernel.cpp files.
#if defined(MINDSPEED_SIMD_EXPONENTIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MINDSPEED_SIMD_EXPONENTIAL_INL_H_
#undef MINDSPEED_SIMD_EXPONENTIAL_INL_H_
#else
#define MINDSPEED_SIMD_EXPONENTIAL_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::simd::HWY_NAMESPACE {

// e^x = 2^n e^r with |r| <= ln2/2 and a degree-6 polynomial (Cephes' coefficients), about 1 ulp.
// Below -87.3 the result is 0, from about 88.4 (n = 128) infinity, so softmax terms vanish as they
// should; a NaN stays a NaN.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V exponential(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> signed32;
  const auto lowest = hn::Set(d, -87.3F);
  const auto vanishes = hn::Lt(x, lowest);
  x = hn::IfThenElse(hn::IsNaN(x), x, hn::Max(hn::Min(x, hn::Set(d, 88.7F)), lowest));
  // Added to 1.5 * 2^23 a float has no fraction bits left: it is rounded, and its low bits are n.
  const auto round = hn::Set(d, 12582912.0F);
  const auto rounded = hn::MulAdd(x, hn::Set(d, 1.44269504088896341F), round);
  const auto n = hn::Sub(rounded, round);
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
  auto p = hn::MulAdd(hn::Set(d, 1.9875691500e-4F), r, hn::Set(d, 1.3981999507e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3F));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1F));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1F));
  p = hn::MulAdd(hn::Mul(r, r), p, hn::Add(r, hn::Set(d, 1.0F)));
  const auto power =
      hn::ShiftLeft<23>(hn::Add(hn::BitCast(signed32, rounded), hn::Set(signed32, 127)));
  return hn::IfThenZeroElse(vanishes, hn::Mul(p, hn::BitCast(d, power)));
}

}  // namespace mindspeed::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
