// SPDX-License-Identifier: Apache-2.0
#include "ops/squared_norm/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/squared_norm/cpu_kernel.cpp"
#include <algorithm>

#include "hwy/foreach_target.h"
//
#include "simd/isa.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace sv = simd::HWY_NAMESPACE;

double sum_of_squares(const float* x, int64_t size) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> d32;
  const auto square = [&](int64_t i) {
    const auto v = hn::PromoteTo(d, hn::LoadU(d32, x + i));
    return hn::Mul(v, v);
  };
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  int64_t i = 0;
  for (; i + 4 * lanes <= size; i += 4 * lanes) {
    sum0 = hn::Add(sum0, square(i));
    sum1 = hn::Add(sum1, square(i + lanes));
    sum2 = hn::Add(sum2, square(i + 2 * lanes));
    sum3 = hn::Add(sum3, square(i + 3 * lanes));
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
  for (; i < size; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

// 16-bit floats, a block at a time through a float32 buffer in the nearest cache.
template <class T>
double sum_of_squares(const T* x, int64_t size) {
  constexpr int64_t kBlock = 1024;
  HWY_ALIGN float block[kBlock];
  const sv::FloatTag d;
  double sum = 0;
  for (int64_t start = 0; start < size; start += kBlock) {
    const int64_t count = std::min(kBlock, size - start);
    sv::for_each_vector(count, [&](auto access, size_t i) {
      access.store(access.load(d, x + start + i), d, block + i);
    });
    sum += sum_of_squares(block, count);
  }
  return sum;
}

double squared_norm_all(const SquaredNormRun& run) {
  double sum = 0;
  simd::visit_element_type(run.type, [&](auto element) {
    sum = sum_of_squares(static_cast<const decltype(element)*>(run.data), run.size);
  });
  return sum;
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(squared_norm_all);

double squared_norm_run(const SquaredNormRun& run) {
  return MINDSPEED_DISPATCH(squared_norm_all)(run);
}

}  // namespace mindspeed::ops
#endif  // HWY_ONCE
