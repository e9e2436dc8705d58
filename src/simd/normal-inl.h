// SPDX-License-Identifier: Apache-2.0
// Distribution function and density of the normal distribution for float32 vectors, included once a
// target by cpu_kernel.cpp files.
#if defined(MINDSPEED_SIMD_NORMAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MINDSPEED_SIMD_NORMAL_INL_H_
#undef MINDSPEED_SIMD_NORMAL_INL_H_
#else
#define MINDSPEED_SIMD_NORMAL_INL_H_
#endif

#include "simd/exponential-inl.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::simd::HWY_NAMESPACE {

struct Normal {
  FloatVector distribution;  // (1 + erf(x / sqrt(2))) / 2
  FloatVector density;       // e^(-x^2/2) / sqrt(2 pi)
};

// erfc(z) e^(z^2) = t q(t) with z = |x| / sqrt(2), t = 1 / (1 + 0.35 z): q is the degree-9
// polynomial of least relative error on z in [0, 10] (7e-9; in float32 about 3 ulp). Both results
// share one exponential. A NaN stays a NaN.
HWY_INLINE Normal normal(FloatTag d, FloatVector x) {
  const auto one = hn::Set(d, 1.0F);
  const auto bell = exponential(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5F)));
  const auto t =
      hn::Div(one, hn::MulAdd(hn::Abs(x), hn::Set(d, 0.35F * 0.70710678118654752F), one));
  auto q = hn::MulAdd(hn::Set(d, 0.038401354F), t, hn::Set(d, -0.15892991F));
  q = hn::MulAdd(q, t, hn::Set(d, 0.18146504F));
  q = hn::MulAdd(q, t, hn::Set(d, -0.027710743F));
  q = hn::MulAdd(q, t, hn::Set(d, 0.08702298F));
  q = hn::MulAdd(q, t, hn::Set(d, 0.14603992F));
  q = hn::MulAdd(q, t, hn::Set(d, 0.15118697F));
  q = hn::MulAdd(q, t, hn::Set(d, 0.18790224F));
  q = hn::MulAdd(q, t, hn::Set(d, 0.19713837F));
  q = hn::MulAdd(q, t, hn::Set(d, 0.19748378F));
  const auto tail = hn::Mul(hn::Mul(bell, hn::Set(d, 0.5F)), hn::Mul(t, q));
  const auto positive = hn::Gt(x, hn::Zero(d));
  return {
      hn::IfThenElse(positive, hn::Sub(one, tail), tail),
      hn::Mul(bell, hn::Set(d, 0.3989422804014327F))};
}

}  // namespace mindspeed::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
