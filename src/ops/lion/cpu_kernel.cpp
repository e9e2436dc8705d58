// SPDX-License-Identifier: Apache-2.0
#include "ops/lion/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/lion/cpu_kernel.cpp"
#include <type_traits>

#include "hwy/foreach_target.h"
//
#include "simd/isa.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace sv = simd::HWY_NAMESPACE;

// sign(x) * size, with sign(0) = 0.
HWY_INLINE sv::FloatVector with_sign(sv::FloatTag d, sv::FloatVector size, sv::FloatVector x) {
  return hn::IfThenZeroElse(hn::Eq(x, hn::Zero(d)), hn::CopySign(size, x));
}

template <class T>
void update(const LionRun& run, const LionFactors& factors) {
  const sv::FloatTag d;
  const auto grad_scale = hn::Set(d, factors.grad_scale);
  const auto keep = hn::Set(d, factors.keep);
  const auto lr = hn::Set(d, factors.lr);
  const auto beta1 = hn::Set(d, factors.beta1);
  const auto one_minus_beta1 = hn::Set(d, factors.one_minus_beta1);
  const auto beta2 = hn::Set(d, factors.beta2);
  const auto one_minus_beta2 = hn::Set(d, factors.one_minus_beta2);
  const T* grad = static_cast<const T*>(run.grad);
  T* param = static_cast<T*>(run.param);
  sv::for_each_vector(run.size, [&](auto access, size_t i) {
    const auto g = hn::Mul(access.load(d, grad + i), grad_scale);
    const auto m = access.load(d, run.exp_avg + i);
    // products and sums apart, as the formula rounds: a fused sum could turn an exact 0 into a sign
    const auto direction = hn::Add(hn::Mul(m, beta1), hn::Mul(g, one_minus_beta1));
    const auto decayed = hn::Mul(access.load(d, run.weight + i), keep);
    const auto p = hn::Sub(decayed, with_sign(d, lr, direction));
    access.store(hn::MulAdd(g, one_minus_beta2, hn::Mul(m, beta2)), d, run.exp_avg + i);
    access.store(p, d, run.weight + i);
    if constexpr (!std::is_same_v<T, float>) access.store(p, d, param + i);
  });
}

void lion_all(const LionRun& run, const LionFactors& factors) {
  simd::visit_element_type(run.type, [&](auto kind) { update<decltype(kind)>(run, factors); });
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(lion_all);

void lion_run(const LionRun& run, const LionFactors& factors) {
  MINDSPEED_DISPATCH(lion_all)(run, factors);
}

}  // namespace mindspeed::ops
#endif  // HWY_ONCE
