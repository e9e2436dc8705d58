// SPDX-License-Identifier: Apache-2.0
#include "ops/geglu/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/geglu/cpu_kernel.cpp"
#include "hwy/foreach_target.h"
//
#include "ops/gated/kernel-inl.h"
#include "simd/isa.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

struct GeluTanh {
  // (1 + tanh(z)) / 2 = sigmoid(2 z) with z = sqrt(2/pi) (g + 0.044715 g^3)
  static constexpr float kTwoRoot = 1.5957691216057308F;  // 2 sqrt(2/pi)
  static constexpr float kCubic = 0.044715F;

  static sv::Sigmoid half_tanh(sv::FloatTag d, sv::FloatVector g, sv::FloatVector square) {
    const auto inner = hn::MulAdd(hn::Mul(square, g), hn::Set(d, kCubic), g);
    return sv::sigmoid(d, hn::Mul(inner, hn::Set(d, kTwoRoot)));
  }
  static sv::FloatVector value(sv::FloatTag d, sv::FloatVector g) {
    return hn::Mul(g, half_tanh(d, g, hn::Mul(g, g)).value);
  }
  // s = sigmoid(2 z):  f = g s,  f' = s + g s (1 - s) 2 z'
  static ValueAndSlope slope(sv::FloatTag d, sv::FloatVector g) {
    const auto one = hn::Set(d, 1.0F);
    const auto square = hn::Mul(g, g);
    const auto [s, complement] = half_tanh(d, g, square);
    const auto value = hn::Mul(g, s);
    const auto inner_slope =
        hn::Mul(hn::MulAdd(square, hn::Set(d, 3 * kCubic), one), hn::Set(d, kTwoRoot));
    return {value, hn::MulAdd(hn::Mul(value, complement), inner_slope, s)};
  }
};

void geglu_forward_all(const GatedForward& args, int64_t begin, int64_t end) {
  gated_forward<GeluTanh>(args, begin, end);
}

void geglu_backward_all(const GatedBackward& args, int64_t begin, int64_t end) {
  gated_backward<GeluTanh>(args, begin, end);
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(geglu_forward_all);
HWY_EXPORT(geglu_backward_all);

void geglu_forward_rows(const GatedForward& args, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(geglu_forward_all)(args, begin, end);
}

void geglu_backward_rows(const GatedBackward& args, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(geglu_backward_all)(args, begin, end);
}

}  // namespace mindspeed::ops
#endif  // HWY_ONCE
