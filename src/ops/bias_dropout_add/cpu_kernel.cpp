// SPDX-License-Identifier: Apache-2.0
#include "ops/bias_dropout_add/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/bias_dropout_add/cpu_kernel.cpp"
#include <algorithm>

#include "hwy/foreach_target.h"
//
#include "simd/dropout-inl.h"
#include "simd/isa.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace sv = simd::HWY_NAMESPACE;

// value * factor, where the factors of a row's elements are 0 or keep_factor.
struct RowDropout {
  const DropoutRule& rule;
  uint32_t row_key;

  RowDropout(const DropoutRule& dropout, int64_t row)
      : rule(dropout), row_key(sv::dropout_row_key(dropout.seed, static_cast<uint64_t>(row))) {}

  HWY_INLINE sv::FloatVector apply(sv::FloatVector value, size_t column) const {
    if (rule.threshold == 0) return value;
    const sv::FloatTag d;
    const auto factors = sv::dropout_factors(
        d, row_key, static_cast<uint32_t>(column), rule.threshold, rule.keep_factor);
    return hn::Mul(value, factors);
  }
};

template <class T>
void forward(const BiasDropoutAddForward& args, int64_t begin, int64_t end) {
  const sv::FloatTag d;
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(args.x) + row * args.x_stride;
    const T* residual = static_cast<const T*>(args.residual) + row * args.residual_stride;
    T* out = static_cast<T*>(args.out) + row * args.size;
    const RowDropout dropout(args.dropout, row);
    sv::for_each_vector(args.size, [&](auto access, size_t i) {
      auto value = access.load(d, x + i);
      if (args.bias != nullptr) value = hn::Add(value, access.load(d, args.bias + i));
      const auto kept = dropout.apply(value, i);
      access.store(hn::Add(access.load(d, residual + i), kept), d, out + i);
    });
  }
}

template <class T>
void backward(const BiasDropoutAddBackward& args, int64_t begin, int64_t end, float* grad_bias) {
  const sv::FloatTag d;
  if (grad_bias != nullptr) std::fill_n(grad_bias, args.size, 0.0F);
  for (int64_t row = begin; row < end; ++row) {
    const T* grad = static_cast<const T*>(args.grad) + row * args.grad_stride;
    T* grad_x = static_cast<T*>(args.grad_x) + row * args.size;
    const RowDropout dropout(args.dropout, row);
    sv::for_each_vector(args.size, [&](auto access, size_t i) {
      const auto kept = dropout.apply(access.load(d, grad + i), i);
      access.store(kept, d, grad_x + i);
      if (grad_bias != nullptr) {
        access.store(hn::Add(access.load(d, grad_bias + i), kept), d, grad_bias + i);
      }
    });
  }
}

void bias_dropout_add_forward_all(const BiasDropoutAddForward& args, int64_t begin, int64_t end) {
  simd::visit_element_type(
      args.type, [&](auto element) { forward<decltype(element)>(args, begin, end); });
}

void bias_dropout_add_backward_all(
    const BiasDropoutAddBackward& args, int64_t begin, int64_t end, float* grad_bias) {
  simd::visit_element_type(
      args.type, [&](auto element) { backward<decltype(element)>(args, begin, end, grad_bias); });
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(bias_dropout_add_forward_all);
HWY_EXPORT(bias_dropout_add_backward_all);

void bias_dropout_add_forward_rows(const BiasDropoutAddForward& args, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(bias_dropout_add_forward_all)(args, begin, end);
}

void bias_dropout_add_backward_rows(
    const BiasDropoutAddBackward& args, int64_t begin, int64_t end, float* grad_bias) {
  MINDSPEED_DISPATCH(bias_dropout_add_backward_all)(args, begin, end, grad_bias);
}

}  // namespace mindspeed::ops
#endif  // HWY_ONCE
