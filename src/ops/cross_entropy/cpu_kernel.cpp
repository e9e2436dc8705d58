// SPDX-License-Identifier: Apache-2.0
#include "ops/cross_entropy/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cross_entropy/cpu_kernel.cpp"
#include <algorithm>
#include <cmath>
#include <limits>

#include "hwy/foreach_target.h"
//
#include "simd/exponential-inl.h"
#include "simd/hyperbolic_tangent-inl.h"
#include "simd/isa.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace sv = simd::HWY_NAMESPACE;

// What enters the softmax in place of a logit, and the slope of it.
struct Uncapped {
  explicit Uncapped(double /*softcap*/) {}
  sv::FloatVector value(sv::FloatVector logit) const { return logit; }
  sv::FloatVector times_slope(sv::FloatVector grad, sv::FloatVector /*value*/) const {
    return grad;
  }
};

struct Softcapped {
  explicit Softcapped(double softcap) : cap(hn::Set(sv::FloatTag(), static_cast<float>(softcap))) {}
  sv::FloatVector value(sv::FloatVector logit) const {
    return hn::Mul(cap, sv::hyperbolic_tangent(sv::FloatTag(), hn::Div(logit, cap)));
  }
  sv::FloatVector times_slope(sv::FloatVector grad, sv::FloatVector value) const {
    const auto tanh = hn::Div(value, cap);
    return hn::Mul(grad, hn::NegMulAdd(tanh, tanh, hn::Set(sv::FloatTag(), 1.0F)));
  }
  sv::FloatVector cap;
};

// Elements [0, whole) fill vectors; the rest is handled one by one, for a padded lane would enter
// maximum and sum.
inline size_t whole_vectors(int64_t size) {
  const size_t lanes = hn::Lanes(sv::FloatTag());
  return static_cast<size_t>(size) / lanes * lanes;
}

template <class T>
float element(const T* row, size_t i) {
  return hn::GetLane(sv::Part{1}.load(sv::FloatTag(), row + i));
}

template <class T>
float row_maximum(const T* row, int64_t size) {
  const sv::FloatTag d;
  const float lowest = -std::numeric_limits<float>::infinity();
  const size_t whole = whole_vectors(size);
  auto maximum = hn::Set(d, lowest);
  sv::for_each_vector(
      whole, [&](auto access, size_t i) { maximum = hn::Max(access.load(d, row + i), maximum); });
  float result = hn::GetLane(hn::MaxOfLanes(d, maximum));
  for (size_t i = whole; i < static_cast<size_t>(size); ++i) {
    result = std::max(result, element(row, i));
  }
  return result;
}

// Sum over the row of term(s - maximum).
template <class T, class Cap, class Term>
float row_sum(const T* row, int64_t size, const Cap& cap, float maximum, const Term& term) {
  const sv::FloatTag d;
  const auto shift = hn::Set(d, maximum);
  const auto value = [&](sv::FloatVector logit) { return term(hn::Sub(cap.value(logit), shift)); };
  const size_t whole = whole_vectors(size);
  float sum =
      sv::sum_over(whole, [&](auto access, size_t i) { return value(access.load(d, row + i)); });
  for (size_t i = whole; i < static_cast<size_t>(size); ++i) {
    sum += hn::GetLane(value(hn::Set(d, element(row, i))));
  }
  return sum;
}

template <class Cap, class T>
void forward(const CrossEntropyForward& args, int64_t begin, int64_t end) {
  const sv::FloatTag d;
  const Cap cap(args.settings.softcap);
  const auto z_loss = static_cast<float>(args.settings.z_loss);
  const auto smoothing = static_cast<float>(args.settings.label_smoothing);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t label = args.labels[row];
    const bool ignored = label == args.settings.ignore_index;
    args.loss[row] = 0.0F;
    args.maximum[row] = 0.0F;
    args.log_sum[row] = 0.0F;
    if (args.log_prob != nullptr) args.log_prob[row] = 0.0F;
    if (args.correct != nullptr) args.correct[row] = false;
    if (ignored) continue;
    const T* logits = static_cast<const T*>(args.logits) + row * args.logits_stride;
    const float largest = row_maximum(logits, args.vocabulary);
    const float logit = element(logits, label);
    const float maximum = hn::GetLane(cap.value(hn::Set(d, largest)));
    const float below = maximum - hn::GetLane(cap.value(hn::Set(d, logit)));
    const float log_sum = std::log(row_sum(
        logits, args.vocabulary, cap, maximum, [&](auto v) { return sv::exponential(d, v); }));
    float loss = log_sum + below;
    if (args.log_prob != nullptr) args.log_prob[row] = -loss;
    if (args.correct != nullptr) args.correct[row] = logit >= largest;
    if (smoothing > 0) {
      const float sum = row_sum(logits, args.vocabulary, cap, maximum, [](auto v) { return v; });
      const float mean = sum / static_cast<float>(args.vocabulary);
      loss = (1 - smoothing) * loss + smoothing * (log_sum - mean);
    }
    const float log_sum_exp = maximum + log_sum;
    args.loss[row] = loss + z_loss * log_sum_exp * log_sum_exp;
    args.maximum[row] = maximum;
    args.log_sum[row] = log_sum;
  }
}

// d/ds_j of grad_loss loss + grad_log_prob log_prob = softmax_j on_softmax - [j = label] on_label -
// everywhere + softmax_j on_square, the last apart: beside a softmax near 1 it would be lost.
// Maximum and log of the sum are subtracted one after the other: their sum would have lost digits.
template <class Cap, class T>
void backward(const CrossEntropyBackward& args, int64_t begin, int64_t end) {
  const sv::FloatTag d;
  const Cap cap(args.settings.softcap);
  const auto z_loss = static_cast<float>(args.settings.z_loss);
  const auto smoothing = static_cast<float>(args.settings.label_smoothing);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t label = args.labels[row];
    const T* logits = static_cast<const T*>(args.logits) + row * args.logits_stride;
    T* grad_logits = static_cast<T*>(args.grad_logits) + row * args.vocabulary;
    if (label == args.settings.ignore_index) {
      std::fill_n(grad_logits, args.vocabulary, T{});
      continue;
    }
    const float grad = args.grad_loss[row];
    const float grad_log_prob = args.grad_log_prob == nullptr ? 0.0F : args.grad_log_prob[row];
    const float log_sum_exp = args.maximum[row] + args.log_sum[row];
    const auto on_softmax = hn::Set(d, grad - grad_log_prob);
    const auto on_label = hn::Set(d, grad * (1 - smoothing) - grad_log_prob);
    const auto everywhere = hn::Set(d, grad * (smoothing / static_cast<float>(args.vocabulary)));
    const auto on_square = hn::Set(d, grad * 2 * z_loss * log_sum_exp);
    const auto maximum = hn::Set(d, args.maximum[row]);
    const auto log_sum = hn::Set(d, args.log_sum[row]);
    const auto softmax = [&](sv::FloatVector value) {
      return sv::exponential(d, hn::Sub(hn::Sub(value, maximum), log_sum));
    };
    const auto slope = [&](sv::FloatVector p, sv::FloatVector target) {
      return hn::MulAdd(p, on_square, hn::Sub(hn::Mul(p, on_softmax), target));
    };
    const auto at_label = cap.value(hn::Set(d, element(logits, label)));
    sv::for_each_vector(args.vocabulary, [&](auto access, size_t i) {
      const auto value = cap.value(access.load(d, logits + i));
      access.store(cap.times_slope(slope(softmax(value), everywhere), value), d, grad_logits + i);
    });
    const auto with_label = slope(softmax(at_label), hn::Add(on_label, everywhere));
    sv::Part{1}.store(cap.times_slope(with_label, at_label), d, grad_logits + label);
  }
}

void cross_entropy_forward_all(const CrossEntropyForward& args, int64_t begin, int64_t end) {
  simd::visit_element_type(args.type, [&](auto kind) {
    using T = decltype(kind);
    args.settings.softcap > 0 ? forward<Softcapped, T>(args, begin, end)
                              : forward<Uncapped, T>(args, begin, end);
  });
}

void cross_entropy_backward_all(const CrossEntropyBackward& args, int64_t begin, int64_t end) {
  simd::visit_element_type(args.type, [&](auto kind) {
    using T = decltype(kind);
    args.settings.softcap > 0 ? backward<Softcapped, T>(args, begin, end)
                              : backward<Uncapped, T>(args, begin, end);
  });
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(cross_entropy_forward_all);
HWY_EXPORT(cross_entropy_backward_all);

void cross_entropy_forward_rows(const CrossEntropyForward& args, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(cross_entropy_forward_all)(args, begin, end);
}

void cross_entropy_backward_rows(const CrossEntropyBackward& args, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(cross_entropy_backward_all)(args, begin, end);
}

}  // namespace mindspeed::ops
#endif  // HWY_ONCE
