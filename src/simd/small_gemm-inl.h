// SPDX-License-Identifier: Apache-2.0
// Products of small float32 matrices that lie in cache: C (+)= A B. Included once a target.
//
// B is read as panels of 2 vectors of columns. The micro-kernel keeps 6 x 2 vectors of C in
// registers: 12 independent sums hide the latency of two FMA ports (8 in flight on AVX2 and
// AVX-512), and with 2 vectors of B and one of A they fit the 16 registers of AVX2.
#if defined(MINDSPEED_SIMD_SMALL_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MINDSPEED_SIMD_SMALL_GEMM_INL_H_
#undef MINDSPEED_SIMD_SMALL_GEMM_INL_H_
#else
#define MINDSPEED_SIMD_SMALL_GEMM_INL_H_
#endif

#include <algorithm>
#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::simd::HWY_NAMESPACE {

using PanelTag = hwy::HWY_NAMESPACE::ScalableTag<float>;
inline constexpr size_t kPanelRows = 6;

HWY_INLINE size_t panel_columns() {
  return 2 * hwy::HWY_NAMESPACE::Lanes(PanelTag());
}
HWY_INLINE size_t round_up(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// A as rows read one scalar at a time: element (row, k) is at data[row * row_stride + k *
// k_stride].
struct Rows {
  const float* data;
  size_t row_stride;
  size_t k_stride;
};

// B by panels of panel_columns() columns: element (k, column) of panel p is at data[p *
// panel_stride + k * row_stride + column]. Plain rows, padded to whole panels, are panels with
// panel_stride = panel_columns().
struct Panels {
  const float* data;
  size_t panel_stride;
  size_t row_stride;
};

template <size_t kRows>
HWY_INLINE void multiply_tile(
    const Rows& a,
    const float* HWY_RESTRICT panel,
    size_t panel_row_stride,
    size_t k_size,
    float* HWY_RESTRICT c,
    size_t c_stride,
    bool add) {
  namespace hn = hwy::HWY_NAMESPACE;
  const PanelTag d;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<PanelTag> left[kRows];
  hn::Vec<PanelTag> right[kRows];
#pragma GCC unroll 8
  for (size_t row = 0; row < kRows; ++row) {
    left[row] = hn::Zero(d);
    right[row] = hn::Zero(d);
  }
  const float* column = a.data;
  for (size_t k = 0; k < k_size; ++k) {
    const auto b_left = hn::LoadU(d, panel);
    const auto b_right = hn::LoadU(d, panel + lanes);
#pragma GCC unroll 8
    for (size_t row = 0; row < kRows; ++row) {
      const auto value = hn::Set(d, column[row * a.row_stride]);
      left[row] = hn::MulAdd(value, b_left, left[row]);
      right[row] = hn::MulAdd(value, b_right, right[row]);
    }
    column += a.k_stride;
    panel += panel_row_stride;
  }
  // The sum of this call is added to C at once: a long sum made of block sums rounds less than one
  // run of additions.
#pragma GCC unroll 8
  for (size_t row = 0; row < kRows; ++row) {
    float* to = c + row * c_stride;
    hn::StoreU(add ? hn::Add(hn::LoadU(d, to), left[row]) : left[row], d, to);
    hn::StoreU(add ? hn::Add(hn::LoadU(d, to + lanes), right[row]) : right[row], d, to + lanes);
  }
}

HWY_INLINE void multiply_tile_rows(
    size_t rows,
    const Rows& a,
    const float* panel,
    size_t panel_row_stride,
    size_t k_size,
    float* c,
    size_t c_stride,
    bool add) {
  switch (rows) {
    case 6:
      return multiply_tile<6>(a, panel, panel_row_stride, k_size, c, c_stride, add);
    case 5:
      return multiply_tile<5>(a, panel, panel_row_stride, k_size, c, c_stride, add);
    case 4:
      return multiply_tile<4>(a, panel, panel_row_stride, k_size, c, c_stride, add);
    case 3:
      return multiply_tile<3>(a, panel, panel_row_stride, k_size, c, c_stride, add);
    case 2:
      return multiply_tile<2>(a, panel, panel_row_stride, k_size, c, c_stride, add);
    default:
      return multiply_tile<1>(a, panel, panel_row_stride, k_size, c, c_stride, add);
  }
}

// Inner dimension of a group of rows: from k = first to k = last.
struct InnerRange {
  size_t first;
  size_t last;
};

// C [rows, columns] (+)= A B over the panels that cover `columns`. inner_of(first_row, end_row,
// column) narrows the inner dimension of a tile of at most 6 rows and one panel from `column` on,
// for banded A or C; a tile with an empty range is not touched.
template <class InnerOf>
HWY_INLINE void multiply(
    size_t rows,
    size_t columns,
    const Rows& a,
    const Panels& b,
    float* c,
    size_t c_stride,
    bool add,
    const InnerOf& inner_of) {
  const size_t width = panel_columns();
  const float* panel = b.data;
  for (size_t column = 0; column < columns; column += width, panel += b.panel_stride) {
    for (size_t row = 0; row < rows; row += kPanelRows) {
      const size_t count = std::min(kPanelRows, rows - row);
      const InnerRange inner = inner_of(row, row + count, column);
      if (inner.last <= inner.first) continue;
      const Rows part{
          a.data + row * a.row_stride + inner.first * a.k_stride, a.row_stride, a.k_stride};
      multiply_tile_rows(
          count,
          part,
          panel + inner.first * b.row_stride,
          b.row_stride,
          inner.last - inner.first,
          c + row * c_stride + column,
          c_stride,
          add);
    }
  }
}

}  // namespace mindspeed::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
