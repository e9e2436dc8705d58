// SPDX-License-Identifier: Apache-2.0
// What forward and backward share: float32 copies of heads as matrix factors, the part of a tile of
// scores that is seen, and what is done to a row of scores. Included once a target.
#if defined(MINDSPEED_OPS_FLASH_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MINDSPEED_OPS_FLASH_ATTENTION_TILES_INL_H_
#undef MINDSPEED_OPS_FLASH_ATTENTION_TILES_INL_H_
#else
#define MINDSPEED_OPS_FLASH_ATTENTION_TILES_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>

#include "hwy/highway.h"
#include "ops/flash_attention/kernel.h"
#include "simd/dropout-inl.h"
#include "simd/exponential-inl.h"
#include "simd/hyperbolic_tangent-inl.h"
#include "simd/small_gemm-inl.h"
#include "simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace sv = simd::HWY_NAMESPACE;
using sv::FloatTag;
using sv::FloatVector;
using sv::InnerRange;
using sv::Panels;
using sv::Rows;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr size_t kQueryBlock = kAttentionQueryBlock;
constexpr size_t kKeyBlock = kAttentionKeyBlock;

// Rows of a copy lie a whole number of panels and an odd number of cache lines apart: 96 rows one
// below another would fall into few sets of the first-level cache with a power of two between them.
HWY_INLINE size_t padded_stride(size_t size) {
  constexpr size_t kLine = 16;
  const size_t lines = sv::round_up(size, std::max(kLine, sv::panel_columns())) / kLine;
  return (lines | 1) * kLine;
}

template <class T>
HWY_INLINE const T* head_row(const HeadArray& array, int64_t offset, int64_t token, int64_t head) {
  return static_cast<const T*>(array.data) + offset + token * array.token_stride +
         head * array.head_stride;
}

// One row of `size` elements as float32, times `factor`, zeros up to `padded`.
template <class T>
HWY_INLINE void copy_row(const T* from, size_t size, size_t padded, float factor, float* to) {
  const FloatTag d;
  const auto factors = hn::Set(d, factor);
  sv::for_each_vector(size, [&](auto access, size_t i) {
    access.store(hn::Mul(access.load(d, from + i), factors), d, to + i);
  });
  std::fill(to + size, to + padded, 0.0F);
}

// Rows as float32, padded_stride(columns) apart: a left factor, and a right one in row order.
struct PaddedRows {
  static size_t size(size_t rows, size_t columns) { return rows * padded_stride(columns); }

  template <class RowOf>
  static void pack(size_t rows, size_t columns, float factor, const RowOf& row_of, float* to) {
    const size_t stride = padded_stride(columns);
    const size_t padded = sv::round_up(columns, sv::panel_columns());
    for (size_t row = 0; row < rows; ++row)
      copy_row(row_of(row), columns, padded, factor, to + row * stride);
  }

  static Rows as_left(const float* data, size_t columns) {
    return {data, padded_stride(columns), 1};
  }
  static Panels as_right(const float* data, size_t columns) {
    return {data, sv::panel_columns(), padded_stride(columns)};
  }
};

// The transpose of rows, packed as panels: panel p holds rows [p * width, ...) as its columns,
// `columns` deep. This is how K^T and V^T become the right factor.
struct TransposedPanels {
  static size_t size(size_t rows, size_t columns) {
    return sv::round_up(rows, sv::panel_columns()) * columns;
  }

  // `scratch` holds panel_columns() rows.
  template <class RowOf>
  static void pack(size_t rows, size_t columns, const RowOf& row_of, float* scratch, float* to) {
    const size_t width = sv::panel_columns();
    for (size_t first = 0; first < rows; first += width, to += width * columns) {
      const size_t count = std::min(width, rows - first);
      for (size_t i = 0; i < count; ++i)
        copy_row(row_of(first + i), columns, columns, 1.0F, scratch + i * columns);
      std::fill(scratch + count * columns, scratch + width * columns, 0.0F);
      for (size_t k = 0; k < columns; ++k) {
        for (size_t i = 0; i < width; ++i) to[k * width + i] = scratch[i * columns + k];
      }
    }
  }

  // From row `first` on, which starts a panel.
  static Panels as_right(const float* data, size_t columns, size_t first) {
    const size_t width = sv::panel_columns();
    return {data + first * columns, width * columns, width};
  }
};

// The seen part of a tile of queries x keys: of row i the columns [begin[i], end[i]).
struct TileBand {
  size_t rows;
  size_t columns;
  size_t begin[kQueryBlock];
  size_t end[kQueryBlock];

  TileBand(const Visibility& visibility, TokenRange queries, TokenRange keys)
      : rows(static_cast<size_t>(queries.size())), columns(static_cast<size_t>(keys.size())) {
    auto within = [&](int64_t key) {
      return static_cast<size_t>(std::clamp<int64_t>(key - keys.begin, 0, keys.size()));
    };
    for (size_t row = 0; row < rows; ++row) {
      const int64_t query = queries.begin + static_cast<int64_t>(row);
      begin[row] = within(visibility.first_key(query));
      end[row] = within(visibility.end_key(query));
    }
  }

  // Columns that any of the rows sees; both bounds rise from row to row.
  InnerRange columns_of(size_t first, size_t last) const { return {begin[first], end[last - 1]}; }

  // Whether a product tile of the scores has to be computed.
  bool touches(size_t first, size_t last, size_t column) const {
    return column < end[last - 1] && column + sv::panel_columns() > begin[first];
  }
};

// scores = A B over the seen part, the inner dimension `depth`. Long inner products are sums of
// shorter ones, which rounds less than one run of additions.
HWY_INLINE void multiply_scores(
    const TileBand& band,
    const Rows& a,
    const Panels& b,
    size_t depth,
    float* scores,
    size_t stride) {
  constexpr size_t kRun = 128;
  for (size_t k = 0; k < depth; k += kRun) {
    const size_t run = std::min(kRun, depth - k);
    sv::multiply(
        band.rows,
        band.columns,
        Rows{a.data + k * a.k_stride, a.row_stride, a.k_stride},
        Panels{b.data + k * b.row_stride, b.panel_stride, b.row_stride},
        scores,
        stride,
        /*add=*/k > 0,
        [&](size_t first, size_t last, size_t column) {
          return InnerRange{0, band.touches(first, last, column) ? run : 0};
        });
  }
}

// What is done to a scaled score before the softmax: soft-cap, then ALiBi.
struct ScoreTerms {
  float softcap;
  float slope;

  ScoreTerms(const AttentionShape& shape, int64_t head)
      : softcap(shape.softcap),
        slope(shape.alibi_slopes == nullptr ? 0.0F : shape.alibi_slopes[head]) {}

  bool any() const { return softcap > 0 || slope != 0; }

  // tanh(s / cap), whose square gives the slope of the cap.
  HWY_INLINE FloatVector bend(FloatTag d, FloatVector score) const {
    return sv::hyperbolic_tangent(d, hn::Div(score, hn::Set(d, softcap)));
  }

  // -slope * |distance| of keys whose distances to the query are distance, distance - 1, ...
  HWY_INLINE FloatVector bias(FloatTag d, int64_t distance) const {
    const auto distances = hn::Sub(hn::Set(d, static_cast<float>(distance)), hn::Iota(d, 0.0F));
    return hn::Mul(hn::Set(d, -slope), hn::Abs(distances));
  }

  // In place on a row of scores whose first key is `distance` before the query.
  void apply(float* row, size_t count, int64_t distance) const {
    const FloatTag d;
    if (softcap > 0) {
      sv::for_each_vector(count, [&](auto access, size_t i) {
        const auto bent = bend(d, access.load(d, row + i));
        access.store(hn::Mul(hn::Set(d, softcap), bent), d, row + i);
      });
    }
    if (slope != 0) {
      sv::for_each_vector(count, [&](auto access, size_t i) {
        const auto score = access.load(d, row + i);
        access.store(hn::Add(score, bias(d, distance - static_cast<int64_t>(i))), d, row + i);
      });
    }
  }
};

HWY_INLINE void multiply_rows(float* row, const float* factors, size_t size) {
  const FloatTag d;
  sv::for_each_vector(size, [&](auto access, size_t i) {
    access.store(hn::Mul(access.load(d, row + i), access.load(d, factors + i)), d, row + i);
  });
}

// Counter-based dropout: whether (head, query, key) is dropped is a hash of the three and the seed.
struct Dropout {
  uint32_t threshold;  // dropped when hash < threshold
  float keep_factor;   // 1 / (1 - p)
  uint64_t seed;

  explicit Dropout(const AttentionShape& shape)
      : threshold(static_cast<uint32_t>(
            std::min(static_cast<double>(shape.dropout) * 4294967296.0, 4294967295.0))),
        keep_factor(1.0F / (1.0F - shape.dropout)),
        seed(shape.seed) {}

  uint32_t row_key(int64_t head, int64_t query) const {
    return sv::dropout_row_key(
        seed, static_cast<uint64_t>(head) << 32 | static_cast<uint32_t>(query));
  }

  // factors[j] for keys first_key + [0, count): 0 or keep_factor.
  void factors(uint32_t row_key, int64_t first_key, size_t count, float* out) const {
    const FloatTag d;
    sv::for_each_vector(count, [&](auto access, size_t j) {
      const auto key = static_cast<uint32_t>(first_key) + static_cast<uint32_t>(j);
      access.store(sv::dropout_factors(d, row_key, key, threshold, keep_factor), d, out + j);
    });
  }
};

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
