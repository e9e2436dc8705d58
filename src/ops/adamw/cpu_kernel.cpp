// SPDX-License-Identifier: Apache-2.0
#include "ops/adamw/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/adamw/cpu_kernel.cpp"
#include <type_traits>

#include "hwy/foreach_target.h"
//
#include "ops/adamw/update-inl.h"
#include "simd/isa.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

template <class T>
void update(const AdamWRun& run, const AdamWFactors& factors) {
  const sv::FloatTag d;
  const AdamWUpdate step(factors);
  const T* grad = static_cast<const T*>(run.grad);
  T* param = static_cast<T*>(run.param);
  sv::for_each_vector(run.size, [&](auto access, size_t i) {
    auto m = access.load(d, run.exp_avg + i);
    auto v = access.load(d, run.exp_avg_sq + i);
    auto p = access.load(d, run.weight + i);
    step.apply(access.load(d, grad + i), m, v, p);
    access.store(m, d, run.exp_avg + i);
    access.store(v, d, run.exp_avg_sq + i);
    access.store(p, d, run.weight + i);
    if constexpr (!std::is_same_v<T, float>) access.store(p, d, param + i);
  });
}

void adamw_all(const AdamWRun& run, const AdamWFactors& factors) {
  simd::visit_element_type(run.type, [&](auto kind) { update<decltype(kind)>(run, factors); });
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
