// SPDX-License-Identifier: Apache-2.0
#include "ops/rotary_embedding/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rotary_embedding/cpu_kernel.cpp"
#include <algorithm>

#include "hwy/foreach_target.h"
//
#include "simd/isa.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace sv = simd::HWY_NAMESPACE;

// Pairs (i, i + num_pairs).
template <class T>
void rotate_halves(
    const T* x, const float* cos, const float* sin, float sign, int64_t num_pairs, T* out) {
  const sv::FloatTag d;
  const auto direction = hn::Set(d, sign);
  sv::for_each_vector(num_pairs, [&](auto access, size_t i) {
    const auto c = access.load(d, cos + i);
    const auto s = hn::Mul(access.load(d, sin + i), direction);
    const auto first = access.load(d, x + i);
    const auto second = access.load(d, x + num_pairs + i);
    access.store(hn::NegMulAdd(second, s, hn::Mul(first, c)), d, out + i);
    access.store(hn::MulAdd(first, s, hn::Mul(second, c)), d, out + num_pairs + i);
  });
}

// Pairs (2i, 2i+1), a block at a time through float32 buffers that stay in the nearest cache.
template <class T>
void rotate_neighbours(
    const T* x, const float* cos, const float* sin, float sign, int64_t num_pairs, T* out) {
  constexpr int64_t kBlock = 128;  // pairs; a multiple of every vector length in use
  const sv::FloatTag d;
  const auto direction = hn::Set(d, sign);
  HWY_ALIGN float mixed[2 * kBlock] = {};
  HWY_ALIGN float angles[2][kBlock] = {};
  for (int64_t start = 0; start < num_pairs; start += kBlock) {
    const int64_t pairs = std::min(kBlock, num_pairs - start);
    sv::for_each_vector(2 * pairs, [&](auto access, size_t i) {
      access.store(access.load(d, x + 2 * start + i), d, mixed + i);
    });
    std::copy_n(cos + start, pairs, angles[0]);
    std::copy_n(sin + start, pairs, angles[1]);
    for (int64_t i = 0; i < pairs; i += static_cast<int64_t>(hn::Lanes(d))) {
      hn::Vec<sv::FloatTag> first, second;
      hn::LoadInterleaved2(d, mixed + 2 * i, first, second);
      const auto c = hn::Load(d, angles[0] + i);
      const auto s = hn::Mul(hn::Load(d, angles[1] + i), direction);
      hn::StoreInterleaved2(
          hn::NegMulAdd(second, s, hn::Mul(first, c)),
          hn::MulAdd(first, s, hn::Mul(second, c)),
          d,
          mixed + 2 * i);
    }
    sv::for_each_vector(2 * pairs, [&](auto access, size_t i) {
      access.store(access.load(d, mixed + i), d, out + 2 * start + i);
    });
  }
}

template <class T>
void rotate_tokens(const RotaryEmbedding& args, int64_t begin, int64_t end) {
  const float sign = args.inverse ? -1.0F : 1.0F;
  const int64_t rotated = 2 * args.num_pairs;
  for (int64_t token = begin; token < end; ++token) {
    const int64_t place = token % args.sequence;
    const int64_t batch = token / args.sequence;
    const T* x =
        static_cast<const T*>(args.x) + batch * args.batch_stride + place * args.token_stride;
    T* out =
        static_cast<T*>(args.out) + batch * args.out_batch_stride + place * args.out_token_stride;
    const int64_t position = args.positions != nullptr ? args.positions[token] : place;
    const float* cos = args.cos + position * args.num_pairs;
    const float* sin = args.sin + position * args.num_pairs;
    for (int64_t head = 0; head < args.num_heads; ++head) {
      if (args.interleaved) {
        rotate_neighbours(x, cos, sin, sign, args.num_pairs, out);
      } else {
        rotate_halves(x, cos, sin, sign, args.num_pairs, out);
      }
      if (out != x) std::copy(x + rotated, x + args.size, out + rotated);
      x += args.head_stride;
      out += args.out_head_stride;
    }
  }
}

void rotary_embedding_all(const RotaryEmbedding& args, int64_t begin, int64_t end) {
  simd::visit_element_type(
      args.type, [&](auto element) { rotate_tokens<decltype(element)>(args, begin, end); });
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(rotary_embedding_all);

void rotary_embedding_tokens(const RotaryEmbedding& args, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(rotary_embedding_all)(args, begin, end);
}

}  // namespace mindspeed::ops
#endif  // HWY_ONCE
