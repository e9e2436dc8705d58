// SPDX-License-Identifier: Apache-2.0
// Forward of flash attention (Dao et al. 2022, Dao 2023) in tiles of queries x keys that stay in
// the second-level cache. The S x S matrix never exists: a running maximum and sum a query (online
// softmax) take one block of keys after the other. Blocks that no query of the tile sees are not
// touched.
#include "ops/flash_attention/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/flash_attention/cpu_kernel_forward.cpp"
#include <algorithm>
#include <cmath>

#include "hwy/foreach_target.h"
//
#include "ops/flash_attention/tiles-inl.h"
#include "simd/isa.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

// Key/value panels of one head: K^T first, V after it.
size_t packed_size(const AttentionShape& shape, int64_t key_length) {
  return TransposedPanels::size(key_length, shape.head_size) +
         PaddedRows::size(key_length, shape.value_size);
}

template <class T>
void pack(
    const AttentionForward& args,
    const AttentionSequence& sequence,
    int64_t head,
    float* packed,
    Workspace& workspace) {
  const auto length = static_cast<size_t>(sequence.key_length);
  const auto head_size = static_cast<size_t>(args.shape.head_size);
  float* scratch = workspace.take(sv::panel_columns() * head_size);
  TransposedPanels::pack(
      length,
      head_size,
      [&](size_t row) {
        return head_row<T>(args.key, sequence.key_offset, static_cast<int64_t>(row), head);
      },
      scratch,
      packed);
  PaddedRows::pack(
      length,
      static_cast<size_t>(args.shape.value_size),
      1.0F,
      [&](size_t row) {
        return head_row<T>(args.value, sequence.value_offset, static_cast<int64_t>(row), head);
      },
      packed + TransposedPanels::size(length, head_size));
}

float maximum_of(const float* row, size_t count) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  auto most = hn::Set(d, kMinusInfinity);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) most = hn::Max(most, hn::LoadU(d, row + i));
  float result = hn::GetLane(hn::MaxOfLanes(d, most));
  for (; i < count; ++i) result = std::max(result, row[i]);
  return result;
}

// A row of scores becomes e^(s - maximum); returns their sum.
float exponentials(float* row, size_t count, float maximum) {
  const FloatTag d;
  const auto shift = hn::Set(d, maximum);
  return sv::sum_over(count, [&](auto access, size_t i) {
    const auto e = sv::exponential(d, hn::Sub(access.load(d, row + i), shift));
    access.store(e, d, row + i);
    return access.load(d, row + i);  // lanes beyond the row count as zero
  });
}

void scale_row(float* row, size_t size, float factor) {
  const FloatTag d;
  const auto factors = hn::Set(d, factor);
  sv::for_each_vector(size, [&](auto access, size_t i) {
    access.store(hn::Mul(access.load(d, row + i), factors), d, row + i);
  });
}

// The softmax of a block of queries over the keys so far: the largest score, the sum of e^(score -
// maximum), and the values weighted by these.
struct OnlineSoftmax {
  size_t stride;
  float* weighted;
  float maximum[kQueryBlock];
  float total[kQueryBlock];

  // A sink is a score without a value, so it is where the running sums start.
  OnlineSoftmax(size_t rows, size_t value_size, const float* sink, Workspace& workspace)
      : stride(padded_stride(value_size)), weighted(workspace.take(rows * stride)) {
    std::fill_n(weighted, rows * stride, 0.0F);
    std::fill_n(maximum, rows, sink == nullptr ? kMinusInfinity : *sink);
    std::fill_n(total, rows, sink == nullptr ? 0.0F : 1.0F);
  }

  // Takes in the scores of one row, which become its weights.
  void add(size_t row, float* scores, size_t count) {
    const float highest = std::max(maximum[row], maximum_of(scores, count));
    if (highest > maximum[row]) {
      const float shrink = std::exp(maximum[row] - highest);  // e^-inf = 0 for the first block
      total[row] *= shrink;
      scale_row(weighted + row * stride, stride, shrink);
      maximum[row] = highest;
    }
    total[row] += exponentials(scores, count, maximum[row]);
  }

  // 0 for a row without keys; a NaN stays a NaN.
  float inverse_total(size_t row) const {
    return total[row] > 0 ? 1.0F / total[row] : (total[row] == 0 ? 0.0F : total[row]);
  }

  float log_sum_exp(size_t row) const {
    return total[row] == 0 ? kMinusInfinity : maximum[row] + std::log(total[row]);
  }
};

template <class T>
void write_rows(
    const AttentionForward& args,
    const AttentionSequence& sequence,
    int64_t head,
    TokenRange queries,
    const OnlineSoftmax& softmax) {
  const FloatTag d;
  const AttentionShape& shape = args.shape;
  for (size_t row = 0; row < static_cast<size_t>(queries.size()); ++row) {
    const int64_t token = queries.begin + static_cast<int64_t>(row);
    T* out = static_cast<T*>(args.out) +
             ((sequence.first_query + token) * shape.num_heads + head) * shape.value_size;
    const auto factor = hn::Set(d, softmax.inverse_total(row));
    const float* from = softmax.weighted + row * softmax.stride;
    sv::for_each_vector(static_cast<size_t>(shape.value_size), [&](auto access, size_t i) {
      access.store(hn::Mul(access.load(d, from + i), factor), d, out + i);
    });
    args.lse[sequence.lse_offset + token * args.lse_token_stride + head * args.lse_head_stride] =
        softmax.log_sum_exp(row);
  }
}

template <class T>
void forward(
    const AttentionForward& args,
    const AttentionSequence& sequence,
    int64_t head,
    int64_t block,
    const float* packed,
    Workspace& workspace) {
  const AttentionShape& shape = args.shape;
  const Visibility visibility = shape.visibility(sequence);
  const Dropout dropout(shape);
  const ScoreTerms terms(shape, head);
  const int64_t first = block * kAttentionQueryBlock;
  const TokenRange queries{first, std::min(first + kAttentionQueryBlock, sequence.query_length)};
  const auto rows = static_cast<size_t>(queries.size());
  const auto head_size = static_cast<size_t>(shape.head_size);
  const auto value_size = static_cast<size_t>(shape.value_size);
  const size_t score_stride = padded_stride(kKeyBlock);
  const float* values =
      packed + TransposedPanels::size(static_cast<size_t>(sequence.key_length), head_size);

  float* query = workspace.take(PaddedRows::size(rows, head_size));
  PaddedRows::pack(
      rows,
      head_size,
      shape.scale,
      [&](size_t row) {
        const int64_t token = first + static_cast<int64_t>(row);
        return head_row<T>(args.query, sequence.query_offset, token, head);
      },
      query);
  float* scores = workspace.take(rows * score_stride);
  float factors[kKeyBlock];
  OnlineSoftmax softmax(
      rows, value_size, shape.sinks == nullptr ? nullptr : shape.sinks + head, workspace);

  const TokenRange seen = visibility.keys_of(queries);
  for (int64_t key = seen.begin / kAttentionKeyBlock * kAttentionKeyBlock; key < seen.end;
       key += kAttentionKeyBlock) {
    const TileBand band(visibility, queries, {key, std::min(key + kAttentionKeyBlock, seen.end)});
    const auto key_place = static_cast<size_t>(key);
    multiply_scores(
        band,
        PaddedRows::as_left(query, head_size),
        TransposedPanels::as_right(packed, head_size, key_place),
        head_size,
        scores,
        score_stride);
    for (size_t row = 0; row < rows; ++row) {
      float* score = scores + row * score_stride;
      const size_t begin = band.begin[row];
      const size_t count = band.end[row] - begin;
      std::fill_n(score, begin, 0.0F);
      std::fill(score + band.end[row], score + band.columns, 0.0F);
      if (count == 0) continue;
      const int64_t token = first + static_cast<int64_t>(row);
      const int64_t first_key = key + static_cast<int64_t>(begin);
      terms.apply(score + begin, count, visibility.place(token) - first_key);
      softmax.add(row, score + begin, count);
      if (shape.dropout > 0) {
        const uint32_t row_key = dropout.row_key(head, sequence.first_query + token);
        dropout.factors(row_key, sequence.first_key + first_key, count, factors);
        multiply_rows(score + begin, factors, count);
      }
    }
    sv::multiply(
        rows,
        value_size,
        Rows{scores, score_stride, 1},
        PaddedRows::as_right(values + key_place * padded_stride(value_size), value_size),
        softmax.weighted,
        softmax.stride,
        /*add=*/true,
        [&](size_t row, size_t end, size_t) { return band.columns_of(row, end); });
  }
  write_rows<T>(args, sequence, head, queries, softmax);
}

void pack_any(
    const AttentionForward& args,
    const AttentionSequence& sequence,
    int64_t head,
    float* packed,
    Workspace& workspace) {
  simd::visit_element_type(args.shape.type, [&](auto tag) {
    pack<decltype(tag)>(args, sequence, head, packed, workspace);
  });
}

void forward_any(
    const AttentionForward& args,
    const AttentionSequence& sequence,
    int64_t head,
    int64_t block,
    const float* packed,
    Workspace& workspace) {
  simd::visit_element_type(args.shape.type, [&](auto tag) {
    forward<decltype(tag)>(args, sequence, head, block, packed, workspace);
  });
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(packed_size);
HWY_EXPORT(pack_any);
HWY_EXPORT(forward_any);

size_t attention_packed_size(const AttentionShape& shape, int64_t key_length) {
  return MINDSPEED_DISPATCH(packed_size)(shape, key_length);
}

void attention_pack(
    const AttentionForward& args,
    const AttentionSequence& sequence,
    int64_t key_value_head,
    float* packed,
    Workspace& workspace) {
  MINDSPEED_DISPATCH(pack_any)(args, sequence, key_value_head, packed, workspace);
}

void attention_forward(
    const AttentionForward& args,
    const AttentionSequence& sequence,
    int64_t head,
    int64_t block,
    const float* packed,
    Workspace& workspace) {
  MINDSPEED_DISPATCH(forward_any)(args, sequence, head, block, packed, workspace);
}

}  // namespace mindspeed::ops
#endif
