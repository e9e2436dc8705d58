// SPDX-License-Identifier: Apache-2.0
// Backward of flash attention (Dao 2023): the probabilities of a tile are computed again from the
// log-sum-exp. A task owns a range of keys of one key/value head: it adds up their gradients itself
// and leaves its part of the queries' gradients to be added to the other tasks' in a fixed order.
#include "ops/flash_attention/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/flash_attention/cpu_kernel_backward.cpp"
#include <algorithm>

#include "hwy/foreach_target.h"
//
#include "ops/flash_attention/tiles-inl.h"
#include "simd/isa.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

size_t partial_size(const AttentionShape& shape, int64_t queries) {
  return PaddedRows::size(queries, shape.head_size);
}

// The factors made of a task's keys, and the sums of their gradients.
struct KeySide {
  float* key_panels;    // K^T, for the scores
  float* value_panels;  // V^T, for dP
  float* key_rows;      // K, for dQ
  float* grad_key;
  float* grad_value;

  template <class T>
  static KeySide make(
      const AttentionBackward& args,
      const AttentionSequence& sequence,
      int64_t head,
      TokenRange keys,
      Workspace& workspace) {
    const auto count = static_cast<size_t>(keys.size());
    const auto head_size = static_cast<size_t>(args.shape.head_size);
    const auto value_size = static_cast<size_t>(args.shape.value_size);
    auto key_row = [&](size_t row) {
      const int64_t token = keys.begin + static_cast<int64_t>(row);
      return head_row<T>(args.key, sequence.key_offset, token, head);
    };
    auto value_row = [&](size_t row) {
      const int64_t token = keys.begin + static_cast<int64_t>(row);
      return head_row<T>(args.value, sequence.value_offset, token, head);
    };
    KeySide side{
        workspace.take(TransposedPanels::size(count, head_size)),
        workspace.take(TransposedPanels::size(count, value_size)),
        workspace.take(PaddedRows::size(count, head_size)),
        workspace.take(PaddedRows::size(count, head_size)),
        workspace.take(PaddedRows::size(count, value_size))};
    float* scratch = workspace.take(sv::panel_columns() * std::max(head_size, value_size));
    TransposedPanels::pack(count, head_size, key_row, scratch, side.key_panels);
    TransposedPanels::pack(count, value_size, value_row, scratch, side.value_panels);
    PaddedRows::pack(count, head_size, 1.0F, key_row, side.key_rows);
    std::fill_n(side.grad_key, PaddedRows::size(count, head_size), 0.0F);
    std::fill_n(side.grad_value, PaddedRows::size(count, value_size), 0.0F);
    return side;
  }
};

// The factors made of a block of queries of one head: scale * Q and dO; and of each query
// log-sum-exp and delta = sum(dO * O) - d(log-sum-exp), by which softmax's backward needs no row
// sum over keys.
struct QuerySide {
  float* query;
  float* grad_out;
  float lse[kQueryBlock];
  float delta[kQueryBlock];

  QuerySide(const AttentionShape& shape, Workspace& workspace)
      : query(workspace.take(PaddedRows::size(kQueryBlock, shape.head_size))),
        grad_out(workspace.take(PaddedRows::size(kQueryBlock, shape.value_size))) {}

  template <class T>
  void fill(
      const AttentionBackward& args,
      const AttentionSequence& sequence,
      int64_t head,
      TokenRange queries) {
    const FloatTag d;
    const auto rows = static_cast<size_t>(queries.size());
    const auto head_size = static_cast<size_t>(args.shape.head_size);
    const auto value_size = static_cast<size_t>(args.shape.value_size);
    const size_t grad_stride = padded_stride(value_size);
    auto token_of = [&](size_t row) { return queries.begin + static_cast<int64_t>(row); };
    PaddedRows::pack(
        rows,
        head_size,
        args.shape.scale,
        [&](size_t row) {
          return head_row<T>(args.query, sequence.query_offset, token_of(row), head);
        },
        query);
    PaddedRows::pack(
        rows,
        value_size,
        1.0F,
        [&](size_t row) {
          return head_row<T>(args.grad_out, sequence.grad_out_offset, token_of(row), head);
        },
        grad_out);
    auto of_query = [&](const HeadScalars& array, size_t row) {
      return array.data == nullptr ? 0.0F
                                   : array.data
                                         [sequence.lse_offset + token_of(row) * array.token_stride +
                                          head * array.head_stride];
    };
    for (size_t row = 0; row < rows; ++row) {
      const T* out = head_row<T>(args.out, 0, sequence.first_query + token_of(row), head);
      const float* grad = grad_out + row * grad_stride;
      const float product = sv::sum_over(value_size, [&](auto access, size_t i) {
        return hn::Mul(access.load(d, out + i), access.load(d, grad + i));
      });
      delta[row] = product - of_query(args.grad_lse, row);
      lse[row] = of_query(args.lse, row);
    }
  }
};

// One row of a tile: scores become probabilities, products dO V^T the gradient of the scores.
struct RowGradient {
  const ScoreTerms& terms;
  float lse;
  float delta;
  int64_t distance;      // of the row's first key
  const float* factors;  // dropout, null without

  HWY_INLINE FloatVector kept(FloatTag d, auto access, FloatVector x, size_t i) const {
    return factors == nullptr ? x : hn::Mul(x, access.load(d, factors + i));
  }

  void apply(float* scores, float* products, size_t count) const {
    const FloatTag d;
    const auto shift = hn::Set(d, lse);
    const auto mean = hn::Set(d, delta);
    sv::for_each_vector(count, [&](auto access, size_t i) {
      const auto p = sv::exponential(d, hn::Sub(access.load(d, scores + i), shift));
      const auto grad_p = kept(d, access, access.load(d, products + i), i);
      access.store(hn::Mul(p, hn::Sub(grad_p, mean)), d, products + i);
      access.store(kept(d, access, p, i), d, scores + i);
    });
  }

  // The same with soft-cap and ALiBi.
  void apply_with_terms(float* scores, float* products, size_t count) const {
    const FloatTag d;
    const auto shift = hn::Set(d, lse);
    const auto mean = hn::Set(d, delta);
    const auto one = hn::Set(d, 1.0F);
    sv::for_each_vector(count, [&](auto access, size_t i) {
      auto score = access.load(d, scores + i);
      auto slope = one;
      if (terms.softcap > 0) {
        const auto bent = terms.bend(d, score);
        slope = hn::NegMulAdd(bent, bent, one);
        score = hn::Mul(hn::Set(d, terms.softcap), bent);
      }
      score = hn::Add(score, terms.bias(d, distance - static_cast<int64_t>(i)));
      const auto p = sv::exponential(d, hn::Sub(score, shift));
      const auto grad_p = kept(d, access, access.load(d, products + i), i);
      access.store(hn::Mul(hn::Mul(p, hn::Sub(grad_p, mean)), slope), d, products + i);
      access.store(kept(d, access, p, i), d, scores + i);
    });
  }
};

// Of each group of the micro-kernel's rows of keys, the queries of the tile that see any of them.
struct QueryRanges {
  InnerRange of_group[(kKeyBlock + sv::kPanelRows - 1) / sv::kPanelRows];

  explicit QueryRanges(const TileBand& band) {
    size_t first = 0;
    size_t last = 0;
    for (size_t key = 0; key < band.columns; key += sv::kPanelRows) {
      while (first < band.rows && band.end[first] <= key) first += 1;
      while (last < band.rows && band.begin[last] < key + sv::kPanelRows) last += 1;
      of_group[key / sv::kPanelRows] = {first, last};
    }
  }

  InnerRange operator()(size_t first_key, size_t, size_t) const {
    return of_group[first_key / sv::kPanelRows];
  }
};

// All that a task needs for its tiles.
template <class T>
struct BackwardTask {
  const AttentionBackward& args;
  const AttentionSequence& sequence;
  TokenRange keys;
  Visibility visibility;
  Dropout dropout;
  KeySide key_side;
  QuerySide query_side;
  size_t head_size;
  size_t value_size;
  size_t score_stride;
  float* probabilities;
  float* grad_scores;

  BackwardTask(
      const AttentionBackward& args,
      const AttentionSequence& sequence,
      int64_t key_value_head,
      TokenRange keys,
      Workspace& workspace)
      : args(args),
        sequence(sequence),
        keys(keys),
        visibility(args.shape.visibility(sequence)),
        dropout(args.shape),
        key_side(KeySide::make<T>(args, sequence, key_value_head, keys, workspace)),
        query_side(args.shape, workspace),
        head_size(static_cast<size_t>(args.shape.head_size)),
        value_size(static_cast<size_t>(args.shape.value_size)),
        score_stride(padded_stride(kKeyBlock)),
        probabilities(workspace.take(kQueryBlock * score_stride)),
        grad_scores(workspace.take(kQueryBlock * score_stride)) {}

  // P = e^(S - lse), with dropout for dV, and dS.
  void compute_scores(const TileBand& band, int64_t head, int64_t first_query, size_t key) {
    multiply_scores(
        band,
        PaddedRows::as_left(query_side.query, head_size),
        TransposedPanels::as_right(key_side.key_panels, head_size, key),
        head_size,
        probabilities,
        score_stride);
    multiply_scores(
        band,
        PaddedRows::as_left(query_side.grad_out, value_size),
        TransposedPanels::as_right(key_side.value_panels, value_size, key),
        value_size,
        grad_scores,
        score_stride);
    const ScoreTerms terms(args.shape, head);
    float factors[kKeyBlock];
    for (size_t row = 0; row < band.rows; ++row) {
      float* p = probabilities + row * score_stride;
      float* ds = grad_scores + row * score_stride;
      const size_t begin = band.begin[row];
      const size_t end = band.end[row];
      for (float* scores : {p, ds}) {
        std::fill_n(scores, begin, 0.0F);
        std::fill(scores + end, scores + band.columns, 0.0F);
      }
      const int64_t query = first_query + static_cast<int64_t>(row);
      const int64_t first_key = keys.begin + static_cast<int64_t>(key + begin);
      if (args.shape.dropout > 0) {
        const uint32_t row_key = dropout.row_key(head, sequence.first_query + query);
        dropout.factors(row_key, sequence.first_key + first_key, end - begin, factors);
      }
      const RowGradient gradient{
          terms,
          query_side.lse[row],
          query_side.delta[row],
          visibility.place(query) - first_key,
          args.shape.dropout > 0 ? factors : nullptr};
      if (terms.any()) {
        gradient.apply_with_terms(p + begin, ds + begin, end - begin);
      } else {
        gradient.apply(p + begin, ds + begin, end - begin);
      }
    }
  }

  // dV += P^T dO, dK += dS^T Q, dQ += dS K.
  void add_products(const TileBand& band, size_t key, float* grad_query) {
    const size_t head_stride = padded_stride(head_size);
    const size_t value_stride = padded_stride(value_size);
    const QueryRanges queries_of(band);
    sv::multiply(
        band.columns,
        value_size,
        Rows{probabilities, 1, score_stride},
        PaddedRows::as_right(query_side.grad_out, value_size),
        key_side.grad_value + key * value_stride,
        value_stride,
        /*add=*/true,
        queries_of);
    sv::multiply(
        band.columns,
        head_size,
        Rows{grad_scores, 1, score_stride},
        PaddedRows::as_right(query_side.query, head_size),
        key_side.grad_key + key * head_stride,
        head_stride,
        /*add=*/true,
        queries_of);
    sv::multiply(
        band.rows,
        head_size,
        Rows{grad_scores, score_stride, 1},
        PaddedRows::as_right(key_side.key_rows + key * head_stride, head_size),
        grad_query,
        head_stride,
        /*add=*/true,
        [&](size_t row, size_t end, size_t) { return band.columns_of(row, end); });
  }

  // All keys of the task that the queries of one head see.
  void run_queries(int64_t head, TokenRange queries, float* grad_query) {
    query_side.fill<T>(args, sequence, head, queries);
    const TokenRange seen = visibility.keys_of(queries);
    for (int64_t key = keys.begin; key < keys.end; key += kAttentionKeyBlock) {
      const int64_t end = std::min({key + kAttentionKeyBlock, keys.end, seen.end});
      if (end <= key || key + kAttentionKeyBlock <= seen.begin) continue;
      const TileBand band(visibility, queries, {key, end});
      const auto place = static_cast<size_t>(key - keys.begin);
      compute_scores(band, head, queries.begin, place);
      add_products(band, place, grad_query);
    }
  }
};

// Float32 rows as rows of [tokens, heads, size].
template <class T>
void write_heads(
    const float* rows, size_t count, size_t size, T* to, int64_t first_token, int64_t heads) {
  const FloatTag d;
  for (size_t row = 0; row < count; ++row) {
    const float* from = rows + row * padded_stride(size);
    T* token = to + (first_token + static_cast<int64_t>(row)) * heads * static_cast<int64_t>(size);
    sv::for_each_vector(
        size, [&](auto access, size_t i) { access.store(access.load(d, from + i), d, token + i); });
  }
}

template <class T>
void backward(
    const AttentionBackward& args,
    const AttentionSequence& sequence,
    int64_t key_value_head,
    TokenRange keys,
    float* grad_query,
    Workspace& workspace) {
  const AttentionShape& shape = args.shape;
  BackwardTask<T> task(args, sequence, key_value_head, keys, workspace);
  const TokenRange queries = task.visibility.queries_of(keys);
  const int64_t group = shape.num_heads / shape.num_key_value_heads;
  for (int64_t head = key_value_head * group; head < (key_value_head + 1) * group; ++head) {
    if (queries.empty()) break;
    for (int64_t first = queries.begin; first < queries.end; first += kAttentionQueryBlock) {
      const int64_t last = std::min(first + kAttentionQueryBlock, queries.end);
      float* rows = grad_query + partial_size(shape, first - queries.begin);
      std::fill_n(rows, partial_size(shape, last - first), 0.0F);
      task.run_queries(head, {first, last}, rows);
    }
    grad_query += partial_size(shape, queries.size());
  }
  auto write = [&](const float* rows, size_t size, void* to) {
    write_heads<T>(
        rows,
        static_cast<size_t>(keys.size()),
        size,
        static_cast<T*>(to) + key_value_head * static_cast<int64_t>(size),
        sequence.first_key + keys.begin,
        shape.num_key_value_heads);
  };
  write(task.key_side.grad_key, task.head_size, args.grad_key);
  write(task.key_side.grad_value, task.value_size, args.grad_value);
}

template <class T>
void sum_grad_query(
    const AttentionBackward& args,
    const AttentionSequence& sequence,
    int64_t key_value_head,
    const PartialGradQuery* parts,
    size_t num_parts,
    Workspace& workspace) {
  const FloatTag d;
  const AttentionShape& shape = args.shape;
  const auto head_size = static_cast<size_t>(shape.head_size);
  const int64_t group = shape.num_heads / shape.num_key_value_heads;
  const auto scale = hn::Set(d, shape.scale);
  float* sum = workspace.take(padded_stride(head_size));
  for (int64_t query = 0; query < sequence.query_length; ++query) {
    for (int64_t in_group = 0; in_group < group; ++in_group) {
      std::fill_n(sum, head_size, 0.0F);
      for (size_t i = 0; i < num_parts; ++i) {
        const TokenRange queries = parts[i].queries;
        if (query < queries.begin || query >= queries.end) continue;
        const float* part = parts[i].data + in_group * partial_size(shape, queries.size()) +
                            partial_size(shape, query - queries.begin);
        sv::for_each_vector(head_size, [&](auto access, size_t at) {
          const auto total = hn::Add(access.load(d, sum + at), access.load(d, part + at));
          access.store(total, d, sum + at);
        });
      }
      T* to = static_cast<T*>(args.grad_query) + ((sequence.first_query + query) * shape.num_heads +
                                                  key_value_head * group + in_group) *
                                                     shape.head_size;
      sv::for_each_vector(head_size, [&](auto access, size_t i) {
        access.store(hn::Mul(access.load(d, sum + i), scale), d, to + i);
      });
    }
  }
}

void backward_any(
    const AttentionBackward& args,
    const AttentionSequence& sequence,
    int64_t key_value_head,
    TokenRange keys,
    float* grad_query,
    Workspace& workspace) {
  simd::visit_element_type(args.shape.type, [&](auto tag) {
    backward<decltype(tag)>(args, sequence, key_value_head, keys, grad_query, workspace);
  });
}

void sum_grad_query_any(
    const AttentionBackward& args,
    const AttentionSequence& sequence,
    int64_t key_value_head,
    const PartialGradQuery* parts,
    size_t num_parts,
    Workspace& workspace) {
  simd::visit_element_type(args.shape.type, [&](auto tag) {
    sum_grad_query<decltype(tag)>(args, sequence, key_value_head, parts, num_parts, workspace);
  });
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(partial_size);
HWY_EXPORT(backward_any);
HWY_EXPORT(sum_grad_query_any);

size_t attention_partial_size(const AttentionShape& shape, int64_t queries) {
  return MINDSPEED_DISPATCH(partial_size)(shape, queries);
}

void attention_backward(
    const AttentionBackward& args,
    const AttentionSequence& sequence,
    int64_t key_value_head,
    TokenRange keys,
    float* grad_query,
    Workspace& workspace) {
  MINDSPEED_DISPATCH(backward_any)(args, sequence, key_value_head, keys, grad_query, workspace);
}

void attention_sum_grad_query(
    const AttentionBackward& args,
    const AttentionSequence& sequence,
    int64_t key_value_head,
    const PartialGradQuery* parts,
    size_t num_parts,
    Workspace& workspace) {
  MINDSPEED_DISPATCH(sum_grad_query_any)
  (args, sequence, key_value_head, parts, num_parts, workspace);
}

}  // namespace mindspeed::ops
#endif
