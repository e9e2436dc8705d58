// SPDX-License-Identifier: Apache-2.0
// Flash attention (Dao et al. 2022, Dao 2023) in tiles of queries x keys that stay in the
// second-level cache. The S x S matrix never exists: forward keeps a running maximum and sum a
// query (online softmax), backward computes the tile's probabilities again from the log-sum-exp.
// Tiles beyond the diagonal are not touched.
//
// All inner products run through simd/small_gemm-inl.h on float32 copies: rows (Q, dO) or panels
// (K^T, V, ...).
#include "ops/flash_attention/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/flash_attention/cpu_kernel.cpp"
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "hwy/aligned_allocator.h"
#include "hwy/foreach_target.h"
//
#include "simd/exponential-inl.h"
#include "simd/isa.h"
#include "simd/small_gemm-inl.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace sv = simd::HWY_NAMESPACE;
using sv::FloatTag;
using sv::FloatVector;
using sv::InnerRange;
using sv::Rows;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Scratch of one task, 64-byte aligned, not cleared.
using Floats = hwy::AlignedFreeUniquePtr<float[]>;
Floats allocate(size_t size) {
  return hwy::AllocateAligned<float>(std::max<size_t>(size, 1));
}

template <class T>
const T* head_row(const HeadArray& array, int64_t offset, int64_t token, int64_t head) {
  return static_cast<const T*>(array.data) + offset + token * array.token_stride +
         head * array.head_stride;
}

// One row of `size` elements as float32, times `factor`, zeros up to `padded`.
template <class T>
void copy_row(const T* from, size_t size, size_t padded, float factor, float* to) {
  const FloatTag d;
  const auto factors = hn::Set(d, factor);
  sv::for_each_vector(size, [&](auto access, size_t i) {
    access.store(hn::Mul(access.load(d, from + i), factors), d, to + i);
  });
  std::fill(to + size, to + padded, 0.0F);
}

// A matrix given row by row, packed as panels over its columns: panel p holds columns [p * width,
// ...), `rows` deep.
struct ColumnPanels {
  static size_t size(size_t rows, size_t columns) {
    return rows * sv::round_up(columns, sv::panel_columns());
  }

  template <class RowOf>
  static void pack(size_t rows, size_t columns, const RowOf& row_of, float factor, float* to) {
    const size_t width = sv::panel_columns();
    for (size_t row = 0; row < rows; ++row) {
      const auto* from = row_of(row);
      for (size_t column = 0; column < columns; column += width) {
        const size_t count = std::min(width, columns - column);
        copy_row(from + column, count, width, factor, to + column * rows + row * width);
      }
    }
  }
};

// The transpose of a matrix given row by row, packed as panels: panel p holds rows [p * width, ...)
// as its columns, `columns` deep. This is how K^T and V^T become the right factor.
struct RowPanels {
  static size_t size(size_t rows, size_t columns) {
    return sv::round_up(rows, sv::panel_columns()) * columns;
  }

  template <class RowOf>
  static void pack(size_t rows, size_t columns, const RowOf& row_of, float* to) {
    const size_t width = sv::panel_columns();
    std::vector<float> wide(columns);
    for (size_t first = 0; first < rows; first += width, to += width * columns) {
      for (size_t i = 0; i < width; ++i) {
        if (first + i < rows) {
          copy_row(row_of(first + i), columns, columns, 1.0F, wide.data());
          for (size_t k = 0; k < columns; ++k) to[k * width + i] = wide[k];
        } else {
          for (size_t k = 0; k < columns; ++k) to[k * width + i] = 0;
        }
      }
    }
  }
};

// Which keys a query sees: j < visible(i), both counted from the start of the sequence.
struct Visibility {
  int64_t key_length;
  int64_t shift;  // key_length - query_length
  bool causal;

  int64_t visible(int64_t query) const {
    return causal ? std::clamp<int64_t>(query + shift + 1, 0, key_length) : key_length;
  }
};

Visibility visibility_of(const AttentionShape& shape, const AttentionSequence& sequence) {
  return {sequence.key_length, sequence.key_length - sequence.query_length, shape.causal};
}

// Counter-based dropout: whether (head, query, key) is dropped is a hash of the three and the seed.
struct Dropout {
  uint32_t threshold;  // dropped when hash < threshold
  float keep_factor;   // 1 / (1 - p)
  uint64_t seed;

  static uint32_t mix(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    x ^= x >> 16;
    return x;
  }

  uint32_t row_key(int64_t head, int64_t query) const {
    const uint32_t by_seed =
        mix(static_cast<uint32_t>(seed) ^ mix(static_cast<uint32_t>(seed >> 32)));
    return mix(
        by_seed ^
        mix(static_cast<uint32_t>(head) * 0x9E3779B9U + mix(static_cast<uint32_t>(query))));
  }

  // factors[j] for keys first_key + [0, count): 0 or keep_factor.
  void factors(uint32_t row_key, int64_t first_key, size_t count, float* out) const {
    const FloatTag d;
    const hn::RebindToUnsigned<FloatTag> d32;
    const auto sign = hn::Set(d32, 0x80000000U);  // unsigned comparison through signed lanes
    const hn::RebindToSigned<FloatTag> signed32;
    const auto limit = hn::BitCast(signed32, hn::Xor(hn::Set(d32, threshold), sign));
    const size_t lanes = hn::Lanes(d);
    HWY_ALIGN float buffer[hn::MaxLanes(FloatTag())];
    for (size_t j = 0; j < count; j += lanes) {
      auto x = hn::Add(
          hn::Iota(d32, static_cast<uint32_t>(first_key + static_cast<int64_t>(j))), hn::Zero(d32));
      x = hn::Xor(hn::Mul(x, hn::Set(d32, 0x9E3779B1U)), hn::Set(d32, row_key));
      x = hn::Xor(x, hn::ShiftRight<16>(x));
      x = hn::Mul(x, hn::Set(d32, 0x7feb352dU));
      x = hn::Xor(x, hn::ShiftRight<15>(x));
      x = hn::Mul(x, hn::Set(d32, 0x846ca68bU));
      x = hn::Xor(x, hn::ShiftRight<16>(x));
      const auto dropped = hn::Lt(hn::BitCast(signed32, hn::Xor(x, sign)), limit);
      const auto factor = hn::IfThenZeroElse(hn::RebindMask(d, dropped), hn::Set(d, keep_factor));
      hn::Store(factor, d, buffer);
      std::copy_n(buffer, std::min(lanes, count - j), out + j);
    }
  }
};

Dropout dropout_of(const AttentionShape& shape) {
  const double threshold = static_cast<double>(shape.dropout) * 4294967296.0;
  return {
      static_cast<uint32_t>(std::min(threshold, 4294967295.0)),
      1.0F / (1.0F - shape.dropout),
      shape.seed};
}

// Key/value panels of one head for forward: K^T first, V after it.
size_t packed_size(const AttentionShape& shape, int64_t key_length) {
  return RowPanels::size(key_length, shape.head_size) +
         ColumnPanels::size(key_length, shape.value_size);
}

template <class T>
void pack(
    const AttentionForward& args, const AttentionSequence& sequence, int64_t head, float* packed) {
  const auto length = static_cast<size_t>(sequence.key_length);
  const auto head_size = static_cast<size_t>(args.shape.head_size);
  RowPanels::pack(
      length,
      head_size,
      [&](size_t row) {
        return head_row<T>(args.key, sequence.key_offset, static_cast<int64_t>(row), head);
      },
      packed);
  ColumnPanels::pack(
      length,
      static_cast<size_t>(args.shape.value_size),
      [&](size_t row) {
        return head_row<T>(args.value, sequence.value_offset, static_cast<int64_t>(row), head);
      },
      1.0F,
      packed + RowPanels::size(length, head_size));
}

// One row of scores becomes exponentials e^(s - maximum) over `count` keys, zeros up to `padded`.
// Returns their sum.
float exponentials(float* row, size_t count, size_t padded, float maximum) {
  const FloatTag d;
  const auto shift = hn::Set(d, maximum);
  const float sum = sv::sum_over(count, [&](auto access, size_t i) {
    const auto e = sv::exponential(d, hn::Sub(access.load(d, row + i), shift));
    access.store(e, d, row + i);
    return access.load(d, row + i);  // lanes beyond the row count as zero
  });
  std::fill(row + count, row + padded, 0.0F);
  return sum;
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

void scale_row(float* row, size_t size, float factor) {
  const FloatTag d;
  const auto factors = hn::Set(d, factor);
  sv::for_each_vector(size, [&](auto access, size_t i) {
    access.store(hn::Mul(access.load(d, row + i), factors), d, row + i);
  });
}

void multiply_rows(float* row, const float* factors, size_t size) {
  const FloatTag d;
  sv::for_each_vector(size, [&](auto access, size_t i) {
    access.store(hn::Mul(access.load(d, row + i), access.load(d, factors + i)), d, row + i);
  });
}

template <class T>
void forward(
    const AttentionForward& args,
    const AttentionSequence& sequence,
    const SequencePlace& place,
    int64_t head,
    int64_t block,
    const float* packed) {
  const AttentionShape& shape = args.shape;
  const Visibility visibility = visibility_of(shape, sequence);
  const Dropout dropout = dropout_of(shape);
  const int64_t first = block * kAttentionQueryBlock;
  const int64_t last = std::min(first + kAttentionQueryBlock, sequence.query_length);
  const auto rows = static_cast<size_t>(last - first);
  const auto head_size = static_cast<size_t>(shape.head_size);
  const auto value_size = static_cast<size_t>(shape.value_size);
  const size_t width = sv::panel_columns();
  const size_t padded_value = sv::round_up(value_size, width);
  const size_t score_stride = sv::round_up(kAttentionKeyBlock, width);
  const auto key_length = static_cast<size_t>(sequence.key_length);
  const float* key_panels = packed;
  const float* value_panels = packed + RowPanels::size(key_length, head_size);

  Floats query = allocate(rows * head_size);
  Floats scores = allocate(rows * score_stride);
  Floats sum = allocate(rows * padded_value);
  Floats factors = allocate(score_stride);
  std::fill_n(sum.get(), rows * padded_value, 0.0F);
  float maximum[kAttentionQueryBlock];
  float total[kAttentionQueryBlock];
  std::fill_n(maximum, rows, kMinusInfinity);
  std::fill_n(total, rows, 0.0F);
  for (size_t row = 0; row < rows; ++row) {
    const T* from =
        head_row<T>(args.query, sequence.query_offset, first + static_cast<int64_t>(row), head);
    copy_row(from, head_size, head_size, shape.scale, query.get() + row * head_size);
  }

  const int64_t key_end = visibility.visible(last - 1);
  for (int64_t key = 0; key < key_end; key += kAttentionKeyBlock) {
    const auto keys = static_cast<size_t>(std::min(kAttentionKeyBlock, key_end - key));
    // How many keys of this block a row sees: of a group of rows, the last sees most.
    auto seen_by = [&](size_t row) {
      const int64_t seen = visibility.visible(first + static_cast<int64_t>(row)) - key;
      return static_cast<size_t>(std::clamp<int64_t>(seen, 0, static_cast<int64_t>(keys)));
    };
    sv::multiply(
        rows,
        keys,
        Rows{query.get(), head_size, 1},
        key_panels + static_cast<size_t>(key) * head_size,
        width * head_size,
        scores.get(),
        score_stride,
        /*add=*/false,
        [&](size_t, size_t end, size_t column) {
          return InnerRange{0, column < seen_by(end - 1) ? head_size : 0};
        });
    for (size_t row = 0; row < rows; ++row) {
      float* score = scores.get() + row * score_stride;
      const size_t seen = seen_by(row);
      if (seen == 0) {
        std::fill_n(score, keys, 0.0F);
        continue;
      }
      const float highest = std::max(maximum[row], maximum_of(score, seen));
      if (highest > maximum[row]) {
        const float shrink = std::exp(maximum[row] - highest);  // e^-inf = 0 for the first block
        total[row] *= shrink;
        scale_row(sum.get() + row * padded_value, padded_value, shrink);
        maximum[row] = highest;
      }
      total[row] += exponentials(score, seen, keys, maximum[row]);
      if (shape.dropout > 0) {
        const uint32_t row_key =
            dropout.row_key(head, sequence.first_query + first + static_cast<int64_t>(row));
        dropout.factors(row_key, sequence.first_key + key, seen, factors.get());
        multiply_rows(score, factors.get(), seen);
      }
    }
    sv::multiply(
        rows,
        value_size,
        Rows{scores.get(), score_stride, 1},
        value_panels + static_cast<size_t>(key) * width,
        width * key_length,
        sum.get(),
        padded_value,
        /*add=*/true,
        [&](size_t, size_t end, size_t) {
          return InnerRange{0, seen_by(end - 1)};
        });
  }

  const FloatTag d;
  for (size_t row = 0; row < rows; ++row) {
    const int64_t token = first + static_cast<int64_t>(row);
    const float inverse =
        total[row] > 0 ? 1.0F / total[row] : (total[row] == 0 ? 0.0F : total[row]);
    T* out = static_cast<T*>(args.out) +
             ((sequence.first_query + token) * shape.num_heads + head) * shape.value_size;
    const auto factor = hn::Set(d, inverse);
    const float* from = sum.get() + row * padded_value;
    sv::for_each_vector(value_size, [&](auto access, size_t i) {
      access.store(hn::Mul(access.load(d, from + i), factor), d, out + i);
    });
    args.lse[place.lse_offset + token * args.lse_token_stride + head * args.lse_head_stride] =
        total[row] == 0 ? kMinusInfinity : maximum[row] + std::log(total[row]);
  }
}

// What backward keeps of one query head: rows and panels of scale * Q and dO, the gradient of Q,
// and a query's delta = sum(dO * O), by which softmax's backward needs no row sum over keys.
struct QueryHead {
  Floats query_rows;
  Floats grad_rows;
  Floats query_panels;
  Floats grad_panels;
  Floats grad_query;
  std::vector<float> delta;
};

template <class T>
void backward(
    const AttentionBackward& args,
    const AttentionSequence& sequence,
    const SequencePlace& place,
    int64_t key_value_head) {
  const AttentionShape& shape = args.shape;
  const Visibility visibility = visibility_of(shape, sequence);
  const Dropout dropout = dropout_of(shape);
  const auto queries = static_cast<size_t>(sequence.query_length);
  const auto keys = static_cast<size_t>(sequence.key_length);
  const auto head_size = static_cast<size_t>(shape.head_size);
  const auto value_size = static_cast<size_t>(shape.value_size);
  const size_t width = sv::panel_columns();
  const size_t padded_head = sv::round_up(head_size, width);
  const size_t padded_value = sv::round_up(value_size, width);
  const size_t score_stride = sv::round_up(kAttentionKeyBlock, width);
  const FloatTag d;

  Floats key_rows_panels = allocate(RowPanels::size(keys, head_size));     // K^T, for the scores
  Floats value_rows_panels = allocate(RowPanels::size(keys, value_size));  // V^T, for dP
  Floats key_panels = allocate(ColumnPanels::size(keys, head_size));       // K, for dQ
  auto key_row = [&](size_t row) {
    return head_row<T>(args.key, sequence.key_offset, static_cast<int64_t>(row), key_value_head);
  };
  auto value_row = [&](size_t row) {
    return head_row<T>(
        args.value, sequence.value_offset, static_cast<int64_t>(row), key_value_head);
  };
  RowPanels::pack(keys, head_size, key_row, key_rows_panels.get());
  RowPanels::pack(keys, value_size, value_row, value_rows_panels.get());
  ColumnPanels::pack(keys, head_size, key_row, 1.0F, key_panels.get());
  Floats grad_key = allocate(keys * padded_head);
  Floats grad_value = allocate(keys * padded_value);
  std::fill_n(grad_key.get(), keys * padded_head, 0.0F);
  std::fill_n(grad_value.get(), keys * padded_value, 0.0F);
  Floats probabilities = allocate(kAttentionQueryBlock * score_stride);
  Floats grad_scores = allocate(kAttentionQueryBlock * score_stride);
  Floats factors = allocate(score_stride);

  QueryHead mine{
      allocate(queries * head_size),
      allocate(queries * value_size),
      allocate(ColumnPanels::size(queries, head_size)),
      allocate(ColumnPanels::size(queries, value_size)),
      allocate(queries * padded_head),
      std::vector<float>(queries)};
  const int64_t group = shape.num_heads / shape.num_key_value_heads;
  for (int64_t head = key_value_head * group; head < (key_value_head + 1) * group; ++head) {
    auto query_row = [&](size_t row) {
      return head_row<T>(args.query, sequence.query_offset, static_cast<int64_t>(row), head);
    };
    auto grad_row = [&](size_t row) {
      return head_row<T>(args.grad_out, place.grad_out_offset, static_cast<int64_t>(row), head);
    };
    for (size_t row = 0; row < queries; ++row) {
      copy_row(
          query_row(row),
          head_size,
          head_size,
          shape.scale,
          mine.query_rows.get() + row * head_size);
      copy_row(
          grad_row(row), value_size, value_size, 1.0F, mine.grad_rows.get() + row * value_size);
      const T* out =
          head_row<T>(args.out, 0, sequence.first_query + static_cast<int64_t>(row), head);
      const float* grad = mine.grad_rows.get() + row * value_size;
      mine.delta[row] = sv::sum_over(value_size, [&](auto access, size_t i) {
        return hn::Mul(access.load(d, out + i), access.load(d, grad + i));
      });
    }
    ColumnPanels::pack(queries, head_size, query_row, shape.scale, mine.query_panels.get());
    ColumnPanels::pack(queries, value_size, grad_row, 1.0F, mine.grad_panels.get());
    std::fill_n(mine.grad_query.get(), queries * padded_head, 0.0F);

    for (size_t key = 0; key < keys; key += kAttentionKeyBlock) {
      const size_t key_count = std::min<size_t>(kAttentionKeyBlock, keys - key);
      for (size_t first = 0; first < queries; first += kAttentionQueryBlock) {
        const size_t rows = std::min<size_t>(kAttentionQueryBlock, queries - first);
        auto seen_by = [&](size_t row) {
          const int64_t seen =
              visibility.visible(static_cast<int64_t>(first + row)) - static_cast<int64_t>(key);
          return static_cast<size_t>(std::clamp<int64_t>(seen, 0, static_cast<int64_t>(key_count)));
        };
        const size_t columns = seen_by(rows - 1);
        if (columns == 0) continue;
        // P = e^(Q K^T - lse) and dP = dO V^T for this tile.
        sv::multiply(
            rows,
            columns,
            Rows{mine.query_rows.get() + first * head_size, head_size, 1},
            key_rows_panels.get() + key * head_size,
            width * head_size,
            probabilities.get(),
            score_stride,
            false,
            [&](size_t, size_t end, size_t column) {
              return InnerRange{0, column < seen_by(end - 1) ? head_size : 0};
            });
        sv::multiply(
            rows,
            columns,
            Rows{mine.grad_rows.get() + first * value_size, value_size, 1},
            value_rows_panels.get() + key * value_size,
            width * value_size,
            grad_scores.get(),
            score_stride,
            false,
            [&](size_t, size_t end, size_t column) {
              return InnerRange{0, column < seen_by(end - 1) ? value_size : 0};
            });
        for (size_t row = 0; row < rows; ++row) {
          float* p = probabilities.get() + row * score_stride;
          float* ds = grad_scores.get() + row * score_stride;
          const size_t seen = seen_by(row);
          const auto token = static_cast<int64_t>(first + row);
          const float lse =
              args.lse
                  [place.lse_offset + token * args.lse_token_stride + head * args.lse_head_stride];
          const auto shift = hn::Set(d, lse);
          const auto delta = hn::Set(d, mine.delta[first + row]);
          if (shape.dropout > 0) {
            const uint32_t row_key = dropout.row_key(head, sequence.first_query + token);
            dropout.factors(
                row_key, sequence.first_key + static_cast<int64_t>(key), seen, factors.get());
            multiply_rows(ds, factors.get(), seen);
          }
          sv::for_each_vector(seen, [&](auto access, size_t i) {
            const auto e = sv::exponential(d, hn::Sub(access.load(d, p + i), shift));
            access.store(e, d, p + i);
            access.store(hn::Mul(e, hn::Sub(access.load(d, ds + i), delta)), d, ds + i);
          });
          if (shape.dropout > 0) multiply_rows(p, factors.get(), seen);
          std::fill(p + seen, p + columns, 0.0F);
          std::fill(ds + seen, ds + columns, 0.0F);
        }
        // Rows of the tile before this one see nothing of a group of keys: where the group's sums
        // may start.
        auto queries_of = [&](size_t first_column, size_t, size_t) {
          size_t row = 0;
          while (row < rows && seen_by(row) <= first_column) row += 1;
          return InnerRange{row, rows};
        };
        sv::multiply(
            columns,
            value_size,
            Rows{probabilities.get(), 1, score_stride},
            mine.grad_panels.get() + first * width,
            width * queries,
            grad_value.get() + key * padded_value,
            padded_value,
            true,
            queries_of);
        sv::multiply(
            columns,
            head_size,
            Rows{grad_scores.get(), 1, score_stride},
            mine.query_panels.get() + first * width,
            width * queries,
            grad_key.get() + key * padded_head,
            padded_head,
            true,
            queries_of);
        sv::multiply(
            rows,
            head_size,
            Rows{grad_scores.get(), score_stride, 1},
            key_panels.get() + key * width,
            width * keys,
            mine.grad_query.get() + first * padded_head,
            padded_head,
            true,
            [&](size_t, size_t end, size_t) {
              return InnerRange{0, seen_by(end - 1)};
            });
      }
    }
    const auto scale = hn::Set(d, shape.scale);
    for (size_t row = 0; row < queries; ++row) {
      T* to = static_cast<T*>(args.grad_query) +
              ((sequence.first_query + static_cast<int64_t>(row)) * shape.num_heads + head) *
                  shape.head_size;
      const float* from = mine.grad_query.get() + row * padded_head;
      sv::for_each_vector(head_size, [&](auto access, size_t i) {
        access.store(hn::Mul(access.load(d, from + i), scale), d, to + i);
      });
    }
  }

  auto write = [&](void* array, const float* from, size_t size, size_t padded) {
    for (size_t row = 0; row < keys; ++row) {
      const int64_t token = sequence.first_key + static_cast<int64_t>(row);
      T* to = static_cast<T*>(array) +
              (token * shape.num_key_value_heads + key_value_head) * static_cast<int64_t>(size);
      sv::for_each_vector(size, [&](auto access, size_t i) {
        access.store(access.load(d, from + row * padded + i), d, to + i);
      });
    }
  };
  write(args.grad_key, grad_key.get(), head_size, padded_head);
  write(args.grad_value, grad_value.get(), value_size, padded_value);
}

void pack_any(
    const AttentionForward& args, const AttentionSequence& sequence, int64_t head, float* packed) {
  simd::visit_element_type(
      args.shape.type, [&](auto tag) { pack<decltype(tag)>(args, sequence, head, packed); });
}

void forward_any(
    const AttentionForward& args,
    const AttentionSequence& sequence,
    const SequencePlace& place,
    int64_t head,
    int64_t block,
    const float* packed) {
  simd::visit_element_type(args.shape.type, [&](auto tag) {
    forward<decltype(tag)>(args, sequence, place, head, block, packed);
  });
}

void backward_any(
    const AttentionBackward& args,
    const AttentionSequence& sequence,
    const SequencePlace& place,
    int64_t key_value_head) {
  simd::visit_element_type(args.shape.type, [&](auto tag) {
    backward<decltype(tag)>(args, sequence, place, key_value_head);
  });
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(packed_size);
HWY_EXPORT(pack_any);
HWY_EXPORT(forward_any);
HWY_EXPORT(backward_any);

size_t attention_packed_size(const AttentionShape& shape, int64_t key_length) {
  return MINDSPEED_DISPATCH(packed_size)(shape, key_length);
}

void attention_pack(
    const AttentionForward& args,
    const AttentionSequence& sequence,
    int64_t key_value_head,
    float* packed) {
  MINDSPEED_DISPATCH(pack_any)(args, sequence, key_value_head, packed);
}

void attention_forward(
    const AttentionForward& args,
    const AttentionSequence& sequence,
    const SequencePlace& place,
    int64_t head,
    int64_t block,
    const float* packed) {
  MINDSPEED_DISPATCH(forward_any)(args, sequence, place, head, block, packed);
}

void attention_backward(
    const AttentionBackward& args,
    const AttentionSequence& sequence,
    const SequencePlace& place,
    int64_t key_value_head) {
  MINDSPEED_DISPATCH(backward_any)(args, sequence, place, key_value_head);
}

}  // namespace mindspeed::ops
#endif
