// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mindspeed::simd {

/// C [rows, columns] (+)= A [rows, inner] B [inner, columns]; rows of B and C lie b_row_stride
/// apart, and one of A's strides is 1.
struct SmallProduct {
  size_t rows;
  size_t columns;
  size_t inner;
  const float* a;
  size_t a_row_stride;
  size_t a_inner_stride;
  const float* b;
  size_t b_row_stride;
  float* c;
  bool add;
};

/// Runs it with the instruction set that Highway has been told to use.
void small_gemm(const SmallProduct& p);

size_t small_gemm_panel_columns();

/// The instruction sets to test, as Highway's bits.
std::vector<int64_t> compiled_and_supported_targets();

}  // namespace mindspeed::simd
