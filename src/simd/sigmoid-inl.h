// SPDX-License-Identifier: Apache-2.0
// 1 / (1 + e^-x) for float32 vectors, included once a target by cpu_kernel.cpp files.
#if defined(MINDSPEED_SIMD_SIGMOID_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MINDSPEED_SIMD_SIGMOID_INL_H_
#undef MINDSPEED_SIMD_SIGMOID_INL_H_
#else
#define MINDSPEED_SIMD_SIGMOID_INL_H_
#endif

#include "simd/exponential-inl.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::simd::HWY_NAMESPACE {

struct Sigmoid {
  FloatVector value;
  FloatVector
      complement;  // 1 - value, without the cancellation that the subtraction would have near 1
};

// Below -87 the value stays at e^-87. A NaN stays a NaN.
HWY_INLINE Sigmoid sigmoid(FloatTag d, FloatVector x) {
  const auto one = hn::Set(d, 1.0F);
  const auto decay = exponential(d, hn::Min(hn::Set(d, 87.0F), hn::Neg(x)));
  const auto value = hn::Div(one, hn::Add(one, decay));
  return {value, hn::Mul(decay, value)};
}

}  // namespace mindspeed::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
