// SPDX-License-Identifier: Apache-2.0
#include "ops/swiglu/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/swiglu/cpu_kernel.cpp"
#include "hwy/foreach_target.h"
//
#include "ops/gated/kernel-inl.h"
#include "simd/isa.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

struct Silu {
  static sv::FloatVector value(sv::FloatTag d, sv::FloatVector g) {
    return hn::Mul(g, sv::sigmoid(d, g).value);
  }
  // s = sigmoid(g):  f = g s,  f' = s (1 + g (1 - s))
  static ValueAndSlope slope(sv::FloatTag d, sv::FloatVector g) {
    const auto [s, complement] = sv::sigmoid(d, g);
    return {hn::Mul(g, s), hn::Mul(s, hn::MulAdd(g, complement, hn::Set(d, 1.0F)))};
  }
};

void swiglu_forward_all(const GatedForward& args, int64_t begin, int64_t end) {
  gated_forward<Silu>(args, begin, end);
}

void swiglu_backward_all(const GatedBackward& args, int64_t begin, int64_t end) {
  gated_backward<Silu>(args, begin, end);
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(swiglu_forward_all);
HWY_EXPORT(swiglu_backward_all);

void swiglu_forward_rows(const GatedForward& args, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(swiglu_forward_all)(args, begin, end);
}

void swiglu_backward_rows(const GatedBackward& args, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(swiglu_backward_all)(args, begin, end);
}

}  // namespace mindspeed::ops
#endif  // HWY_ONCE
