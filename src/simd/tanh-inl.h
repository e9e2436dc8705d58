// SPDX-License-Identifier: Apache-2.0
// tanh for float32 vectors, included once a target by cpu_kernel.cpp files.
#if defined(MINDSPEED_SIMD_TANH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MINDSPEED_SIMD_TANH_INL_H_
#undef MINDSPEED_SIMD_TANH_INL_H_
#else
#define MINDSPEED_SIMD_TANH_INL_H_
#endif

#include "simd/exponential-inl.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::simd::HWY_NAMESPACE {

// 1 - 2 / (e^2|x| + 1) with the sign of x; below 0.625, where that would cancel, an odd polynomial
// (Cephes' coefficients). About 2 ulp. A NaN stays a NaN.
HWY_INLINE FloatVector tanh(FloatTag d, FloatVector x) {
  const auto one = hn::Set(d, 1.0F);
  const auto two = hn::Set(d, 2.0F);
  const auto magnitude = hn::Abs(x);
  const auto growth = exponential(d, hn::Add(magnitude, magnitude));
  const auto large = hn::Sub(one, hn::Div(two, hn::Add(growth, one)));
  const auto square = hn::Mul(x, x);
  auto p = hn::MulAdd(hn::Set(d, -5.70498872745e-3F), square, hn::Set(d, 2.06390887954e-2F));
  p = hn::MulAdd(p, square, hn::Set(d, -5.37397155531e-2F));
  p = hn::MulAdd(p, square, hn::Set(d, 1.33314422036e-1F));
  p = hn::MulAdd(p, square, hn::Set(d, -3.33332819422e-1F));
  const auto small = hn::MulAdd(hn::Mul(p, square), x, x);
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.625F)), small, hn::CopySign(large, x));
}

}  // namespace mindspeed::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
