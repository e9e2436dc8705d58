// SPDX-License-Identifier: Apache-2.0
#include "ops/adamw/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/adamw/cpu_kernel.cpp"
#include "hwy/foreach_target.h"
//
#include "simd/isa.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace sv = simd::HWY_NAMESPACE;

void adamw_all(const AdamWRun& run, const AdamWFactors& factors) {
  const sv::FloatTag d;
  const auto grad_scale = hn::Set(d, factors.grad_scale);
  const auto keep = hn::Set(d, factors.keep);
  const auto beta2 = hn::Set(d, factors.beta2);
  const auto one_minus_beta1 = hn::Set(d, factors.one_minus_beta1);
  const auto one_minus_beta2 = hn::Set(d, factors.one_minus_beta2);
  const auto root = hn::Set(d, factors.bias_correction2_root);
  const auto eps = hn::Set(d, factors.eps);
  const auto minus_step_size = hn::Set(d, factors.minus_step_size);
  sv::for_each_vector(run.size, [&](auto access, size_t i) {
    const auto g = hn::Mul(access.load(d, run.grad + i), grad_scale);
    const auto old_m = access.load(d, run.exp_avg + i);
    const auto m = hn::MulAdd(hn::Sub(g, old_m), one_minus_beta1, old_m);
    const auto v = hn::MulAdd(
        hn::Mul(one_minus_beta2, g), g, hn::Mul(access.load(d, run.exp_avg_sq + i), beta2));
    const auto denominator = hn::Add(hn::Div(hn::Sqrt(v), root), eps);
    const auto decayed = hn::Mul(access.load(d, run.param + i), keep);
    const auto p = hn::Add(decayed, hn::Div(hn::Mul(minus_step_size, m), denominator));
    access.store(m, d, run.exp_avg + i);
    access.store(v, d, run.exp_avg_sq + i);
    access.store(p, d, run.param + i);
  });
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(adamw_all);

void adamw_run(const AdamWRun& run, const AdamWFactors& factors) {
  MINDSPEED_DISPATCH(adamw_all)(run, factors);
}

}  // namespace mindspeed::ops
#endif  // HWY_ONCE
