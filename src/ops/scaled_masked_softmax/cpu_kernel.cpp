// SPDX-License-Identifier: Apache-2.0
#include "ops/scaled_masked_softmax/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/scaled_masked_softmax/cpu_kernel.cpp"
#include <algorithm>
#include <cstring>
#include <vector>

#include "hwy/foreach_target.h"
//
#include "simd/isa.h"
#include "simd/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace sv = simd::HWY_NAMESPACE;

// Keys that the row's query may see: a prefix.
template <class Args>
int64_t visible_keys(const Args& args, int64_t row) {
  if (!args.causal) return args.num_keys;
  const int64_t query = row % args.num_queries;
  return std::clamp<int64_t>(query + args.num_keys - args.num_queries + 1, 0, args.num_keys);
}

// scale * x as float32, -inf where left out.
template <class T>
void load_scores(const T* x, const uint8_t* mask, float scale, size_t size, float* scores) {
  const sv::FloatTag d;
  const hn::Rebind<uint8_t, sv::FloatTag> d8;
  const hn::RebindToUnsigned<sv::FloatTag> d32;
  const size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(d, scale);
  sv::for_each_vector(size, [&](auto access, size_t i) {
    access.store(hn::Mul(access.load(d, x + i), factor), d, scores + i);
  });
  if (mask == nullptr) return;
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const auto hidden = hn::Ne(hn::PromoteTo(d32, hn::LoadU(d8, mask + i)), hn::Zero(d32));
    const auto score = hn::LoadU(d, scores + i);
    hn::StoreU(
        hn::IfThenElse(hn::RebindMask(d, hidden), hn::Set(d, sv::kLeftOut), score), d, scores + i);
  }
  for (; i < size; ++i) {
    if (mask[i] != 0) scores[i] = sv::kLeftOut;
  }
}

template <class T>
void forward(const ScaledMaskedSoftmaxForward& args, int64_t begin, int64_t end) {
  const sv::FloatTag d;
  std::vector<float> scores(sv::padded_size(args.num_keys));
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(args.x) + row * args.x_stride;
    T* y = static_cast<T*>(args.y) + row * args.num_keys;
    const uint8_t* mask =
        args.mask == nullptr ? nullptr : args.mask + args.mask_row[row] * args.num_keys;
    size_t seen = static_cast<size_t>(visible_keys(args, row));
    if (mask != nullptr && seen > 0 && std::memchr(mask, 0, seen) == nullptr) seen = 0;
    if (seen > 0) {
      load_scores(x, mask, args.scale, seen, scores.data());
      sv::softmax_in_place(scores.data(), seen);
      sv::for_each_vector(seen, [&](auto access, size_t i) {
        access.store(access.load(d, scores.data() + i), d, y + i);
      });
    }
    std::fill(y + seen, y + args.num_keys, T{});
  }
}

template <class T>
void backward(const ScaledMaskedSoftmaxBackward& args, int64_t begin, int64_t end) {
  const sv::FloatTag d;
  const auto scale = hn::Set(d, args.scale);
  for (int64_t row = begin; row < end; ++row) {
    const T* grad = static_cast<const T*>(args.grad) + row * args.grad_stride;
    const T* y = static_cast<const T*>(args.y) + row * args.y_stride;
    T* grad_x = static_cast<T*>(args.grad_x) + row * args.num_keys;
    const int64_t seen = visible_keys(args, row);
    const auto pull = hn::Set(d, sv::sum_over(seen, [&](auto access, size_t i) {
                                return hn::Mul(access.load(d, grad + i), access.load(d, y + i));
                              }));
    sv::for_each_vector(seen, [&](auto access, size_t i) {
      const auto centred = hn::Sub(access.load(d, grad + i), pull);
      access.store(hn::Mul(hn::Mul(access.load(d, y + i), centred), scale), d, grad_x + i);
    });
    std::fill(grad_x + seen, grad_x + args.num_keys, T{});
  }
}

void scaled_masked_softmax_forward_all(
    const ScaledMaskedSoftmaxForward& args, int64_t begin, int64_t end) {
  simd::visit_element_type(
      args.type, [&](auto element) { forward<decltype(element)>(args, begin, end); });
}

void scaled_masked_softmax_backward_all(
    const ScaledMaskedSoftmaxBackward& args, int64_t begin, int64_t end) {
  simd::visit_element_type(
      args.type, [&](auto element) { backward<decltype(element)>(args, begin, end); });
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(scaled_masked_softmax_forward_all);
HWY_EXPORT(scaled_masked_softmax_backward_all);

void scaled_masked_softmax_forward_rows(
    const ScaledMaskedSoftmaxForward& args, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(scaled_masked_softmax_forward_all)(args, begin, end);
}

void scaled_masked_softmax_backward_rows(
    const ScaledMaskedSoftmaxBackward& args, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(scaled_masked_softmax_backward_all)(args, begin, end);
}

}  // namespace mindspeed::ops
#endif  // HWY_ONCE
