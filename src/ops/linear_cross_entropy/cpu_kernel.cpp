// SPDX-License-Identifier: Apache-2.0
// Three passes over a row that lies in cache: maximum, exponentials and their sum, gradient.
#include "ops/linear_cross_entropy/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/linear_cross_entropy/cpu_kernel.cpp"
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

float largest(const float* row, size_t size) {
  const sv::FloatTag d;
  const size_t lanes = hn::Lanes(d);
  auto most = hn::Set(d, -std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) most = hn::Max(most, hn::LoadU(d, row + i));
  float result = hn::GetLane(hn::MaxOfLanes(d, most));
  for (; i < size; ++i) result = std::max(result, row[i]);
  return result;
}

// Sum of e^(x - most); with `keep`, the exponentials replace the logits.
float sum_of_exponentials(float* row, size_t size, float most, bool keep) {
  const sv::FloatTag d;
  const size_t lanes = hn::Lanes(d);
  const auto shift = hn::Set(d, most);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * lanes <= size; i += 2 * lanes) {
    const auto e0 = sv::exponential(d, hn::Sub(hn::LoadU(d, row + i), shift));
    const auto e1 = sv::exponential(d, hn::Sub(hn::LoadU(d, row + i + lanes), shift));
    if (keep) {
      hn::StoreU(e0, d, row + i);
      hn::StoreU(e1, d, row + i + lanes);
    }
    sum0 = hn::Add(sum0, e0);
    sum1 = hn::Add(sum1, e1);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < size; ++i) {
    const float e = hn::GetLane(sv::exponential(d, hn::Set(d, row[i] - most)));
    if (keep) row[i] = e;
    sum += e;
  }
  return sum;
}

void scale(float* row, size_t size, float factor) {
  const sv::FloatTag d;
  const auto factors = hn::Set(d, factor);
  sv::for_each_vector(size, [&](auto access, size_t i) {
    access.store(hn::Mul(access.load(d, row + i), factors), d, row + i);
  });
}

// d loss / d logit_j = softmax_j (1 + 2 z lse) - [j = label]
void rows(const CrossEntropyRows& args, int64_t begin, int64_t end) {
  const auto size = static_cast<size_t>(args.vocab);
  for (int64_t index = begin; index < end; ++index) {
    float* row = args.logits + index * args.vocab;
    const int64_t label = args.labels[index];
    if (label == args.ignore_index) {
      args.losses[index] = 0;
      if (args.write_gradient) std::fill_n(row, size, 0.0F);
      continue;
    }
    const float logit = row[label];
    const float most = largest(row, size);
    const float sum = sum_of_exponentials(row, size, most, args.write_gradient);
    const float lse = most + std::log(sum);
    args.losses[index] = lse - logit + args.z_loss * lse * lse;
    if (args.write_gradient) {
      scale(row, size, (1 + 2 * args.z_loss * lse) / sum);
      row[label] -= 1;
    }
  }
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(rows);

void cross_entropy_rows(const CrossEntropyRows& args, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(rows)(args, begin, end);
}

}  // namespace mindspeed::ops
#endif
