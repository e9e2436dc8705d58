// SPDX-License-Identifier: Apache-2.0
#include "ops/rms_norm/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rms_norm/cpu_kernel.cpp"
#include <algorithm>
#include <cmath>

#include "hwy/foreach_target.h"
//
#include "simd/isa.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace sv = simd::HWY_NAMESPACE;

// Writes x + residual as stored and returns the row that gets normalised.
template <class T>
const T* add_residual(const RmsNormForward& args, int64_t row) {
  const sv::FloatTag d;
  const T* x = static_cast<const T*>(args.x) + row * args.x_stride;
  if (args.residual == nullptr) return x;
  const T* residual = static_cast<const T*>(args.residual) + row * args.residual_stride;
  T* sum = static_cast<T*>(args.sum) + row * args.size;
  sv::for_each_vector(args.size, [&](auto access, size_t i) {
    access.store(hn::Add(access.load(d, x + i), access.load(d, residual + i)), d, sum + i);
  });
  return sum;
}

template <class T>
void forward(const RmsNormForward& args, int64_t begin, int64_t end) {
  const sv::FloatTag d;
  for (int64_t row = begin; row < end; ++row) {
    const T* x = add_residual<T>(args, row);
    const float squares = sv::sum_over(args.size, [&](auto access, size_t i) {
      const auto v = access.load(d, x + i);
      return hn::Mul(v, v);
    });
    const float rstd = 1.0F / std::sqrt(squares / static_cast<float>(args.size) + args.eps);
    args.rstd[row] = rstd;
    T* out = static_cast<T*>(args.out) + row * args.size;
    const auto scale = hn::Set(d, rstd);
    sv::for_each_vector(args.size, [&](auto access, size_t i) {
      const auto normed = hn::Mul(access.load(d, x + i), scale);
      access.store(hn::Mul(normed, access.load(d, args.weight + i)), d, out + i);
    });
  }
}

// y = w x r with r = rstd:  dx = r (w g) - x r^3 mean(w g x),  dw = sum over rows of g x r
template <class T>
void backward(const RmsNormBackward& args, int64_t begin, int64_t end, float* grad_weight) {
  const sv::FloatTag d;
  std::fill_n(grad_weight, args.size, 0.0F);
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(args.x) + row * args.x_stride;
    const T* grad = static_cast<const T*>(args.grad) + row * args.grad_stride;
    T* grad_x = static_cast<T*>(args.grad_x) + row * args.size;
    const float rstd = args.rstd[row];
    const auto scale = hn::Set(d, rstd);
    const float dot = sv::sum_over(args.size, [&](auto access, size_t i) {
      const auto gx = hn::Mul(access.load(d, grad + i), access.load(d, x + i));
      const auto share = hn::MulAdd(gx, scale, access.load(d, grad_weight + i));
      access.store(share, d, grad_weight + i);
      return hn::Mul(gx, access.load(d, args.weight + i));
    });
    const auto pull = hn::Set(d, rstd * rstd * rstd * dot / static_cast<float>(args.size));
    const T* past = args.grad_sum == nullptr
                        ? nullptr
                        : static_cast<const T*>(args.grad_sum) + row * args.grad_sum_stride;
    sv::for_each_vector(args.size, [&](auto access, size_t i) {
      const auto wg = hn::Mul(access.load(d, grad + i), access.load(d, args.weight + i));
      auto dx = hn::NegMulAdd(access.load(d, x + i), pull, hn::Mul(wg, scale));
      if (past != nullptr) dx = hn::Add(dx, access.load(d, past + i));
      access.store(dx, d, grad_x + i);
    });
  }
}

void rms_norm_forward_all(const RmsNormForward& args, int64_t begin, int64_t end) {
  simd::visit_element_type(
      args.type, [&](auto element) { forward<decltype(element)>(args, begin, end); });
}

void rms_norm_backward_all(
    const RmsNormBackward& args, int64_t begin, int64_t end, float* grad_weight) {
  simd::visit_element_type(
      args.type, [&](auto element) { backward<decltype(element)>(args, begin, end, grad_weight); });
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(rms_norm_forward_all);
HWY_EXPORT(rms_norm_backward_all);

void rms_norm_forward_rows(const RmsNormForward& args, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(rms_norm_forward_all)(args, begin, end);
}

void rms_norm_backward_rows(
    const RmsNormBackward& args, int64_t begin, int64_t end, float* grad_weight) {
  MINDSPEED_DISPATCH(rms_norm_backward_all)(args, begin, end, grad_weight);
}

}  // namespace mindspeed::ops
#endif  // HWY_ONCE
