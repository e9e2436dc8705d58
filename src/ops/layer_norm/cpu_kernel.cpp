// SPDX-License-Identifier: Apache-2.0
#include "ops/layer_norm/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/layer_norm/cpu_kernel.cpp"
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

// Sum of (x - mean)^2; the row lies in the nearest cache by now, so a second pass costs little and
// loses no digits.
template <class T>
float centred_squares(const T* x, int64_t size, float mean) {
  const sv::FloatTag d;
  const auto centre = hn::Set(d, mean);
  const size_t whole = static_cast<size_t>(size) / hn::Lanes(d) * hn::Lanes(d);
  float sum = sv::sum_over(whole, [&](auto access, size_t i) {
    const auto v = hn::Sub(access.load(d, x + i), centre);
    return hn::Mul(v, v);
  });
  if (whole < static_cast<size_t>(size)) {
    const sv::Part rest{static_cast<size_t>(size) - whole};
    const auto v = hn::Sub(rest.load(d, x + whole), centre);
    sum += hn::GetLane(
        hn::SumOfLanes(d, hn::IfThenElseZero(hn::FirstN(d, rest.count), hn::Mul(v, v))));
  }
  return sum;
}

template <class T>
void forward(const LayerNormForward& args, int64_t begin, int64_t end) {
  const sv::FloatTag d;
  const float size = static_cast<float>(args.size);
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(args.x) + row * args.x_stride;
    T* out = static_cast<T*>(args.out) + row * args.size;
    const float mean =
        sv::sum_over(args.size, [&](auto access, size_t i) { return access.load(d, x + i); }) /
        size;
    const float rstd = 1.0F / std::sqrt(centred_squares(x, args.size, mean) / size + args.eps);
    args.mean[row] = mean;
    args.rstd[row] = rstd;
    const auto centre = hn::Set(d, mean);
    const auto scale = hn::Set(d, rstd);
    sv::for_each_vector(args.size, [&](auto access, size_t i) {
      const auto normed = hn::Mul(hn::Sub(access.load(d, x + i), centre), scale);
      auto y = hn::Mul(normed, access.load(d, args.weight + i));
      if (args.bias != nullptr) y = hn::Add(y, access.load(d, args.bias + i));
      access.store(y, d, out + i);
    });
  }
}

// n = (x - mean) r:  dx = r (w g - mean(w g) - n mean(w g n)),  dw = sum of g n,  db = sum of g
template <class T>
void backward(const LayerNormBackward& args, int64_t begin, int64_t end, float* grad_affine) {
  const sv::FloatTag d;
  float* grad_weight = grad_affine;
  float* grad_bias = grad_affine + args.size;
  const float size = static_cast<float>(args.size);
  std::fill_n(grad_affine, 2 * args.size, 0.0F);
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(args.x) + row * args.x_stride;
    const T* grad = static_cast<const T*>(args.grad) + row * args.grad_stride;
    T* grad_x = static_cast<T*>(args.grad_x) + row * args.size;
    const auto centre = hn::Set(d, args.mean[row]);
    const auto scale = hn::Set(d, args.rstd[row]);
    auto sum_wg = hn::Zero(d);
    const float dot = sv::sum_over(args.size, [&](auto access, size_t i) {
      const auto g = access.load(d, grad + i);
      const auto normed = hn::Mul(hn::Sub(access.load(d, x + i), centre), scale);
      access.store(hn::MulAdd(g, normed, access.load(d, grad_weight + i)), d, grad_weight + i);
      access.store(hn::Add(g, access.load(d, grad_bias + i)), d, grad_bias + i);
      const auto wg = hn::Mul(g, access.load(d, args.weight + i));
      sum_wg = hn::Add(sum_wg, wg);
      return hn::Mul(wg, normed);
    });
    const auto mean_wg = hn::Set(d, hn::GetLane(hn::SumOfLanes(d, sum_wg)) / size);
    const auto mean_wgn = hn::Set(d, dot / size);
    sv::for_each_vector(args.size, [&](auto access, size_t i) {
      const auto wg = hn::Mul(access.load(d, grad + i), access.load(d, args.weight + i));
      const auto normed = hn::Mul(hn::Sub(access.load(d, x + i), centre), scale);
      const auto dx = hn::NegMulAdd(normed, mean_wgn, hn::Sub(wg, mean_wg));
      access.store(hn::Mul(dx, scale), d, grad_x + i);
    });
  }
}

void layer_norm_forward_all(const LayerNormForward& args, int64_t begin, int64_t end) {
  simd::visit_element_type(
      args.type, [&](auto element) { forward<decltype(element)>(args, begin, end); });
}

void layer_norm_backward_all(
    const LayerNormBackward& args, int64_t begin, int64_t end, float* grad_affine) {
  simd::visit_element_type(
      args.type, [&](auto element) { backward<decltype(element)>(args, begin, end, grad_affine); });
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(layer_norm_forward_all);
HWY_EXPORT(layer_norm_backward_all);

void layer_norm_forward_rows(const LayerNormForward& args, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(layer_norm_forward_all)(args, begin, end);
}

void layer_norm_backward_rows(
    const LayerNormBackward& args, int64_t begin, int64_t end, float* grad_affine) {
  MINDSPEED_DISPATCH(layer_norm_backward_all)(args, begin, end, grad_affine);
}

}  // namespace mindspeed::ops
#endif  // HWY_ONCE
