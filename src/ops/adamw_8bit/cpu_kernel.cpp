// SPDX-License-Identifier: Apache-2.0
// A block at a time: codes to moments in the nearest cache, the step, moments to codes. Tables are
// read an element at a time: measured on Zen 3, the vector units' gathers take longer.
#include "ops/adamw_8bit/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/adamw_8bit/cpu_kernel.cpp"
#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "hwy/foreach_target.h"
//
#include "ops/adamw/update-inl.h"
#include "ops/adamw_8bit/dynamic_map.h"
#include "simd/isa.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

using IntegerTag = hn::RebindToSigned<sv::FloatTag>;
using IntegerVector = hn::Vec<IntegerTag>;
using CodeTag = hn::Rebind<uint8_t, sv::FloatTag>;

// A block's codes and moments, zeros behind the last element.
struct Block {
  HWY_ALIGN uint8_t codes[kQuantisationBlock];
  HWY_ALIGN float moments[kQuantisationBlock];

  void load(const uint8_t* from, int64_t size) {
    std::memcpy(codes, from, size);
    std::memset(codes + size, 0, kQuantisationBlock - size);
  }

  void dequantise(const std::array<float, 256>& values, float scale) {
    for (int64_t i = 0; i < kQuantisationBlock; ++i) moments[i] = values[codes[i]] * scale;
  }

  // Codes of the first `size` moments; returns the scale.
  template <class Map, class ToCode>
  float quantise(const Map& map, int64_t size, const ToCode& to_code) {
    const sv::FloatTag d;
    std::fill(moments + size, moments + kQuantisationBlock, 0.0F);
    auto largest = hn::Zero(d);
    for (size_t i = 0; i < kQuantisationBlock; i += hn::Lanes(d)) {
      largest = hn::Max(largest, hn::Abs(hn::Load(d, moments + i)));
    }
    const float scale = hn::GetLane(hn::MaxOfLanes(d, largest));
    const auto inverse = hn::Set(d, scale > 0 ? 1 / scale : 0.0F);
    HWY_ALIGN float magnitudes[kQuantisationBlock];
    HWY_ALIGN int32_t nearest[kQuantisationBlock];
    for (size_t i = 0; i < kQuantisationBlock; i += hn::Lanes(d)) {
      const auto share = hn::Mul(hn::Load(d, moments + i), inverse);
      hn::Store(share, d, moments + i);
      hn::Store(hn::Abs(share), d, magnitudes + i);
      hn::Store(bucket_of<Map>(hn::Abs(share)), IntegerTag(), nearest + i);
    }
    // the smaller of two magnitudes that are equally near
    for (int64_t i = 0; i < kQuantisationBlock; ++i) {
      const int32_t low = map.bounds_below[nearest[i]];
      nearest[i] = low + static_cast<int32_t>(magnitudes[i] > map.bounds[low]);
    }
    for (size_t i = 0; i < kQuantisationBlock; i += hn::Lanes(d)) {
      const auto code = to_code(hn::Load(d, moments + i), hn::Load(IntegerTag(), nearest + i));
      hn::Store(hn::DemoteTo(CodeTag(), code), CodeTag(), codes + i);
    }
    return scale;
  }

  template <class Map>
  static IntegerVector bucket_of(sv::FloatVector magnitude) {
    const IntegerTag integers;
    const auto first = hn::Set(integers, Map::kFirstBits);
    const auto last = hn::Set(integers, Map::kBuckets - 1);  // a NaN is beyond
    const auto bits = hn::Max(hn::BitCast(integers, magnitude), first);
    return hn::Min(hn::ShiftRight<Map::kShift>(hn::Sub(bits, first)), last);
  }
};

inline IntegerVector unsigned_code(sv::FloatVector /*share*/, IntegerVector nearest) {
  return nearest;
}

// The largest magnitude, 1, has no negative twin.
inline IntegerVector signed_code(sv::FloatVector share, IntegerVector nearest) {
  const IntegerTag integers;
  const auto zero = hn::Set(integers, kSignedZero);
  const auto negative = hn::RebindMask(integers, hn::Lt(share, hn::Zero(sv::FloatTag())));
  return hn::IfThenElse(negative, hn::Sub(zero, hn::Min(nearest, zero)), hn::Add(zero, nearest));
}

template <class T>
void update_block(
    const AdamWUpdate& step,
    const T* grad,
    float* weight,
    T* param,
    int64_t size,
    float* means,
    float* squares) {
  const sv::FloatTag d;
  sv::for_each_vector(size, [&](auto access, size_t i) {
    auto m = access.load(d, means + i);
    auto v = access.load(d, squares + i);
    auto p = access.load(d, weight + i);
    step.apply(access.load(d, grad + i), m, v, p);
    access.store(m, d, means + i);
    access.store(v, d, squares + i);
    access.store(p, d, weight + i);
    if constexpr (!std::is_same_v<T, float>) access.store(p, d, param + i);
  });
}

template <class T>
void update(const AdamW8bitRun& run, const AdamWFactors& factors) {
  const AdamWUpdate step(factors);
  Block means;
  Block squares;
  int64_t block = 0;
  for (int64_t at = 0; at < run.size; at += kQuantisationBlock, ++block) {
    const int64_t size = std::min(kQuantisationBlock, run.size - at);
    float& mean_scale = run.exp_avg_scale[block];
    float& square_scale = run.exp_avg_sq_scale[block];
    means.load(run.exp_avg + at, size);
    squares.load(run.exp_avg_sq + at, size);
    means.dequantise(kSignedValues, mean_scale);
    squares.dequantise(kUnsignedValues, square_scale);
    update_block(
        step,
        static_cast<const T*>(run.grad) + at,
        run.weight + at,
        static_cast<T*>(run.param) + at,
        size,
        means.moments,
        squares.moments);
    mean_scale = means.quantise(
        kSignedMagnitudes, size, [](auto share, auto code) { return signed_code(share, code); });
    square_scale = squares.quantise(kUnsignedMagnitudes, size, [](auto share, auto code) {
      return unsigned_code(share, code);
    });
    std::memcpy(run.exp_avg + at, means.codes, size);
    std::memcpy(run.exp_avg_sq + at, squares.codes, size);
  }
}

void adamw_8bit_all(const AdamW8bitRun& run, const AdamWFactors& factors) {
  simd::visit_element_type(run.type, [&](auto kind) { update<decltype(kind)>(run, factors); });
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(adamw_8bit_all);

void adamw_8bit_run(const AdamW8bitRun& run, const AdamWFactors& factors) {
  MINDSPEED_DISPATCH(adamw_8bit_all)(run, factors);
}

}  // namespace mindspeed::ops
#endif  // HWY_ONCE
