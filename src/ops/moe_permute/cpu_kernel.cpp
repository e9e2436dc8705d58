// SPDX-License-Identifier: Apache-2.0
#include "ops/moe_permute/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/moe_permute/cpu_kernel.cpp"
#include <algorithm>
#include <vector>

#include "hwy/foreach_target.h"
//
#include "simd/isa.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace sv = simd::HWY_NAMESPACE;

template <class T>
void spread(const MoeSpread& args, int64_t begin, int64_t end) {
  const sv::FloatTag d;
  for (int64_t p = begin; p < end; ++p) {
    const int64_t slot = args.slots[p];
    const T* x = static_cast<const T*>(args.x) + slot / args.top_k * args.x_stride;
    T* row = static_cast<T*>(args.rows) + p * args.size;
    if (args.weights == nullptr) {
      std::copy_n(x, args.size, row);
    } else {
      const auto weight = hn::Set(d, args.weights[slot]);
      sv::for_each_vector(args.size, [&](auto access, size_t i) {
        access.store(hn::Mul(access.load(d, x + i), weight), d, row + i);
      });
    }
    if (args.dots != nullptr) {
      const T* other = static_cast<const T*>(args.others) + p * args.others_stride;
      args.dots[slot] = sv::sum_over(args.size, [&](auto access, size_t i) {
        return hn::Mul(access.load(d, x + i), access.load(d, other + i));
      });
    }
  }
}

template <class T>
void combine(const MoeCombine& args, int64_t begin, int64_t end) {
  const sv::FloatTag d;
  std::vector<float> sum(args.size);  // float32 until all k are added
  for (int64_t token = begin; token < end; ++token) {
    std::fill(sum.begin(), sum.end(), 0.0F);
    for (int64_t slot = token * args.top_k; slot < (token + 1) * args.top_k; ++slot) {
      const T* row = static_cast<const T*>(args.rows) + args.places[slot] * args.rows_stride;
      const auto weight = hn::Set(d, args.weights == nullptr ? 1.0F : args.weights[slot]);
      sv::for_each_vector(args.size, [&](auto access, size_t i) {
        const auto so_far = access.load(d, sum.data() + i);
        access.store(hn::MulAdd(access.load(d, row + i), weight, so_far), d, sum.data() + i);
      });
    }
    T* x = static_cast<T*>(args.x) + token * args.size;
    sv::for_each_vector(args.size, [&](auto access, size_t i) {
      access.store(access.load(d, sum.data() + i), d, x + i);
    });
  }
}

void moe_spread_all(const MoeSpread& args, int64_t begin, int64_t end) {
  simd::visit_element_type(
      args.type, [&](auto element) { spread<decltype(element)>(args, begin, end); });
}

void moe_combine_all(const MoeCombine& args, int64_t begin, int64_t end) {
  simd::visit_element_type(
      args.type, [&](auto element) { combine<decltype(element)>(args, begin, end); });
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(moe_spread_all);
HWY_EXPORT(moe_combine_all);

void moe_spread_rows(const MoeSpread& args, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(moe_spread_all)(args, begin, end);
}

void moe_combine_rows(const MoeCombine& args, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(moe_combine_all)(args, begin, end);
}

}  // namespace mindspeed::ops
#endif  // HWY_ONCE
