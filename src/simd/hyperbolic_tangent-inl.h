// SPDX-License-Identifier: Apache-2.0
// tanh for float32 vectors, included once a target by cpu_kernel*.cpp files.
#if defined(MINDSPEED_SIMD_HYPERBOLIC_TANGENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MINDSPEED_SIMD_HYPERBOLIC_TANGENT_INL_H_
#undef MINDSPEED_SIMD_HYPERBOLIC_TANGENT_INL_H_
#else
#define MINDSPEED_SIMD_HYPERBOLIC_TANGENT_INL_H_
#endif

#include "hwy/highway.h"
#include "simd/exponential-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::simd::HWY_NAMESPACE {

// Near 0 an odd polynomial (Cephes' coefficients), which keeps the relative error where 1 - 2 /
// (e^2x + 1) would cancel; that formula from |x| = 0.625 on. A NaN stays a NaN.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V hyperbolic_tangent(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const auto one = hn::Set(d, 1.0F);
  const auto square = hn::Mul(x, x);
  auto p = hn::MulAdd(hn::Set(d, -5.70498872745e-3F), square, hn::Set(d, 2.06390887954e-2F));
  p = hn::MulAdd(p, square, hn::Set(d, -5.37397155531e-2F));
  p = hn::MulAdd(p, square, hn::Set(d, 1.33314422036e-1F));
  p = hn::MulAdd(p, square, hn::Set(d, -3.33332819422e-1F));
  const auto small = hn::MulAdd(hn::Mul(p, square), x, x);
  const auto magnitude = hn::Abs(x);
  const auto growth = exponential(d, hn::Add(magnitude, magnitude));
  const auto large = hn::CopySign(hn::Sub(one, hn::Div(hn::Set(d, 2.0F), hn::Add(growth, one))), x);
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.625F)), small, large);
}

}  // namespace mindspeed::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
