// SPDX-License-Identifier: Apache-2.0
// A block at a time: codes to moments in the nearest cache, the step, moments to codes. Tables are
// read one element at a time; a gather of the vector units is no faster.
#include "ops/adamw_8bit/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/adamw_8bit/cpu_kernel.cpp"
#include <algorithm>
#include <type_traits>

#include "hwy/foreach_target.h"
//
#include "ops/adamw/update-inl.h"
#include "ops/adamw_8bit/dynamic_map.h"
#include "simd/isa.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

template <class Values>
void dequantise(
    const uint8_t* codes, float scale, const Values& values, int64_t size, float* moments) {
  for (int64_t i = 0; i < size; ++i) moments[i] = values[codes[i]] * scale;
}

// The block's scale.
template <class Code>
float quantise(float* moments, int64_t size, const Code& code, uint8_t* codes) {
  const sv::FloatTag d;
  auto largest = hn::Zero(d);
  sv::for_each_vector(size, [&](auto access, size_t i) {
    largest = hn::Max(largest, hn::Abs(access.load(d, moments + i)));
  });
  const float scale = hn::GetLane(hn::MaxOfLanes(d, largest));
  const auto inverse = hn::Set(d, scale > 0 ? 1 / scale : 0.0F);
  const auto one = hn::Set(d, 1.0F);
  sv::for_each_vector(size, [&](auto access, size_t i) {
    const auto share = hn::Mul(access.load(d, moments + i), inverse);
    access.store(hn::Max(hn::Min(share, one), hn::Neg(one)), d, moments + i);
  });
  for (int64_t i = 0; i < size; ++i) codes[i] = code(moments[i]);
  return scale;
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
  HWY_ALIGN float means[kQuantisationBlock];
  HWY_ALIGN float squares[kQuantisationBlock];
  int64_t block = 0;
  for (int64_t at = 0; at < run.size; at += kQuantisationBlock, ++block) {
    const int64_t size = std::min(kQuantisationBlock, run.size - at);
    float& mean_scale = run.exp_avg_scale[block];
    float& square_scale = run.exp_avg_sq_scale[block];
    dequantise(run.exp_avg + at, mean_scale, kSignedValues, size, means);
    dequantise(run.exp_avg_sq + at, square_scale, kUnsignedValues, size, squares);
    update_block(
        step,
        static_cast<const T*>(run.grad) + at,
        run.weight + at,
        static_cast<T*>(run.param) + at,
        size,
        means,
        squares);
    mean_scale = quantise(means, size, signed_code, run.exp_avg + at);
    square_scale = quantise(squares, size, unsigned_code, run.exp_avg_sq + at);
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
