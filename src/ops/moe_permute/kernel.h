// SPDX-License-Identifier: Apache-2.0
// Rows that go out to experts and come back. Torch-free. A token has top_k slots, numbered
// token * top_k + k; row p of the sorted rows belongs to slot slots[p]. Strides count elements
// between rows.
#pragma once

#include <cstdint>

#include "simd/element_type.h"

namespace mindspeed::ops {

// rows[p] = weights[slots[p]] * x[slots[p] / top_k]
struct MoeSpread {
  simd::ElementType type;
  const void* x;  // [tokens, size]
  int64_t x_stride;
  const int64_t* slots;  // [rows]
  int64_t top_k;
  int64_t size;
  const float* weights;  // [tokens * top_k]; null: ones
  void* rows;            // [rows, size] contiguous
  // with both: dots[slots[p]] = others[p] . x[slots[p] / top_k]
  const void* others;  // [rows, size]
  int64_t others_stride;
  float* dots;  // [tokens * top_k]
};

// x[token] = sum over k of weights[slot] * rows[places[slot]], in order of k
struct MoeCombine {
  simd::ElementType type;
  const void* rows;  // [tokens * top_k, size]
  int64_t rows_stride;
  const int64_t* places;  // [tokens * top_k], slots the other way round
  int64_t top_k;
  int64_t size;
  const float* weights;  // [tokens * top_k]; null: ones
  void* x;               // [tokens, size] contiguous
};

// Sorted rows [begin, end).
void moe_spread_rows(const MoeSpread& args, int64_t begin, int64_t end);

// Tokens [begin, end).
void moe_combine_rows(const MoeCombine& args, int64_t begin, int64_t end);

}  // namespace mindspeed::ops
