// SPDX-License-Identifier: Apache-2.0
// Small products on every instruction set that this machine has, with matrices that end where
// readable memory ends.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>

#include "simd/guarded_floats.h"
#include "simd/small_gemm_kernel.h"

namespace mindspeed::simd {
namespace {

float number(size_t i) {
  return static_cast<float>((i * 37 + 11) % 101) / 50.0F - 1.0F;
}

// `transposed`: A's columns are contiguous, as attention's backward reads probabilities.
void expect_product(size_t rows, size_t columns, size_t inner, bool transposed, bool add) {
  const size_t width = small_gemm_panel_columns();
  const size_t padded = (columns + width - 1) / width * width;
  const GuardedFloats a(rows * inner);
  const GuardedFloats b(inner * padded);
  const GuardedFloats c(rows * padded);
  for (size_t i = 0; i < rows * inner; ++i) a.data()[i] = number(i);
  for (size_t i = 0; i < inner * padded; ++i) b.data()[i] = number(i + 5);
  for (size_t i = 0; i < rows * padded; ++i) c.data()[i] = 0.5F;
  const size_t row_stride = transposed ? 1 : inner;
  const size_t inner_stride = transposed ? rows : 1;
  small_gemm(
      {rows, columns, inner, a.data(), row_stride, inner_stride, b.data(), padded, c.data(), add});
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      double sum = add ? 0.5 : 0.0;
      for (size_t k = 0; k < inner; ++k)
        sum += static_cast<double>(a.data()[row * row_stride + k * inner_stride]) *
               b.data()[k * padded + column];
      ASSERT_NEAR(c.data()[row * padded + column], sum, 1e-5 * std::sqrt(inner))
          << rows << "x" << columns << "x" << inner << " at " << row << ", " << column;
    }
  }
}

TEST(SmallGemm, IsRightAndStaysInItsMatricesOnEveryInstructionSet) {
  for (const int64_t target : compiled_and_supported_targets()) {
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(hwy::TargetName(target));
    for (const size_t rows : {1, 2, 5, 6, 7, 12, 13, 96}) {
      for (const size_t columns : {1, 7, 16, 33}) {
        for (const size_t inner : {1, 2, 3, 52, 96}) {
          for (const bool transposed : {false, true}) {
            for (const bool add : {false, true})
              expect_product(rows, columns, inner, transposed, add);
          }
        }
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace
}  // namespace mindspeed::simd
