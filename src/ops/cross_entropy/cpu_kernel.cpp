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
#include "simd/isa.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace sv = simd::HWY_NAMESPACE;

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

template <class T>
float row_log_sum(const T* row, int64_t size, float maximum) {
  const sv::FloatTag d;
  const auto shift = hn::Set(d, maximum);
  const size_t whole = whole_vectors(size);
  float sum = sv::sum_over(whole, [&](auto access, size_t i) {
    return sv::exponential(d, hn::Sub(access.load(d, row + i), shift));
  });
  for (size_t i = whole; i < static_cast<size_t>(size); ++i) {
    sum += std::exp(element(row, i) - maximum);
  }
  return std::log(sum);
}

template <class T>
void forward(const CrossEntropyForward& args, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t label = args.labels[row];
    args.loss[row] = 0.0F;
    args.maximum[row] = 0.0F;
    args.log_sum[row] = 0.0F;
    if (label == args.ignore_index) continue;
    const T* logits = static_cast<const T*>(args.logits) + row * args.logits_stride;
    const float maximum = row_maximum(logits, args.vocabulary);
    args.maximum[row] = maximum;
    args.log_sum[row] = row_log_sum(logits, args.vocabulary, maximum);
    args.loss[row] = args.log_sum[row] + (maximum - element(logits, label));
  }
}

// d loss / d logit = softmax - one_hot(label). Maximum and log of the sum are subtracted one after
// the other: their sum would have lost digits.
template <class T>
void backward(const CrossEntropyBackward& args, int64_t begin, int64_t end) {
  const sv::FloatTag d;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t label = args.labels[row];
    const T* logits = static_cast<const T*>(args.logits) + row * args.logits_stride;
    T* grad_logits = static_cast<T*>(args.grad_logits) + row * args.vocabulary;
    if (label == args.ignore_index) {
      std::fill_n(grad_logits, args.vocabulary, T{});
      continue;
    }
    const float grad = args.grad[row];
    const auto scale = hn::Set(d, grad);
    const auto maximum = hn::Set(d, args.maximum[row]);
    const auto log_sum = hn::Set(d, args.log_sum[row]);
    const auto softmax = [&](sv::FloatVector logit) {
      return sv::exponential(d, hn::Sub(hn::Sub(logit, maximum), log_sum));
    };
    sv::for_each_vector(args.vocabulary, [&](auto access, size_t i) {
      access.store(hn::Mul(softmax(access.load(d, logits + i)), scale), d, grad_logits + i);
    });
    const auto at_label = softmax(hn::Set(d, element(logits, label)));
    const auto minus_one = hn::Sub(at_label, hn::Set(d, 1.0F));
    sv::Part{1}.store(hn::Mul(minus_one, scale), d, grad_logits + label);
  }
}

void cross_entropy_forward_all(const CrossEntropyForward& args, int64_t begin, int64_t end) {
  simd::visit_element_type(
      args.type, [&](auto kind) { forward<decltype(kind)>(args, begin, end); });
}

void cross_entropy_backward_all(const CrossEntropyBackward& args, int64_t begin, int64_t end) {
  simd::visit_element_type(
      args.type, [&](auto kind) { backward<decltype(kind)>(args, begin, end); });
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
