// SPDX-License-Identifier: Apache-2.0
// The arithmetic of an AdamW step on vectors, included once a target by the kernels of adamw and
// adamw_8bit.
#if defined(MINDSPEED_OPS_ADAMW_UPDATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MINDSPEED_OPS_ADAMW_UPDATE_INL_H_
#undef MINDSPEED_OPS_ADAMW_UPDATE_INL_H_
#else
#define MINDSPEED_OPS_ADAMW_UPDATE_INL_H_
#endif

#include "ops/adamw/kernel.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace sv = simd::HWY_NAMESPACE;

struct AdamWUpdate {
  explicit AdamWUpdate(const AdamWFactors& factors)
      : grad_scale(set(factors.grad_scale)),
        keep(set(factors.keep)),
        beta2(set(factors.beta2)),
        one_minus_beta1(set(factors.one_minus_beta1)),
        one_minus_beta2(set(factors.one_minus_beta2)),
        root(set(factors.bias_correction2_root)),
        eps(set(factors.eps)),
        minus_step_size(set(factors.minus_step_size)) {}

  static sv::FloatVector set(float value) { return hn::Set(sv::FloatTag(), value); }

  // Moments m and v from their old values and the unscaled gradient, then the weight p.
  HWY_INLINE void apply(
      sv::FloatVector grad, sv::FloatVector& m, sv::FloatVector& v, sv::FloatVector& p) const {
    const auto g = hn::Mul(grad, grad_scale);
    m = hn::MulAdd(hn::Sub(g, m), one_minus_beta1, m);
    v = hn::MulAdd(hn::Mul(one_minus_beta2, g), g, hn::Mul(v, beta2));
    const auto denominator = hn::Add(hn::Div(hn::Sqrt(v), root), eps);
    p = hn::Add(hn::Mul(p, keep), hn::Div(hn::Mul(minus_step_size, m), denominator));
  }

  sv::FloatVector grad_scale, keep, beta2, one_minus_beta1, one_minus_beta2, root, eps,
      minus_step_size;
};

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
