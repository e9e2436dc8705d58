// SPDX-License-Identifier: Apache-2.0
#include "ops/rows.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>

namespace mindspeed::ops {
namespace {

constexpr int64_t kElementsPerTask = 16384;  // below that, waking a thread costs more than it saves
constexpr int64_t kMaxShares = 64;           // bounds the memory of the shares
constexpr int64_t kMinRowsPerShare = 32;     // bounds the cost of adding the shares

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// [rows, N] as a view, if the leading dims collapse and rows are dense; undefined otherwise.
at::Tensor view_as_rows(const at::Tensor& x) {
  if (x.size(-1) > 1 && x.stride(-1) != 1) return {};
  int64_t dim = x.dim() - 2;
  while (dim >= 0 && x.size(dim) == 1) --dim;
  const int64_t row_stride = dim >= 0 ? x.stride(dim) : x.size(-1);
  int64_t expected = row_stride;
  for (; dim >= 0; --dim) {
    if (x.size(dim) == 1) continue;
    if (x.stride(dim) != expected) return {};
    expected *= x.size(dim);
  }
  return x.as_strided({x.numel() / x.size(-1), x.size(-1)}, {row_stride, 1});
}

}  // namespace

at::ScalarType arithmetic_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

void check_float(const char* op, const char* name, const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  TORCH_CHECK_VALUE(
      type == at::kFloat || type == at::kBFloat16 || type == at::kHalf || type == at::kDouble,
      op,
      ": ",
      name,
      " must be float32, bfloat16, float16 or float64, got ",
      type);
}

void check_row_weight(
    const char* op, const at::Tensor& x, const char* name, const at::Tensor& weight) {
  TORCH_CHECK_VALUE(
      weight.dim() == 1 && weight.sym_size(0) == x.sym_size(-1),
      op,
      ": ",
      name,
      " must have shape [",
      x.sym_size(-1),
      "], the last dim of x, got ",
      weight.sym_sizes());
  TORCH_CHECK_VALUE(
      weight.scalar_type() == x.scalar_type() || weight.scalar_type() == at::kFloat,
      op,
      ": ",
      name,
      " must be float32 or have the dtype of x (",
      x.scalar_type(),
      "), got ",
      weight.scalar_type());
  TORCH_CHECK_VALUE(
      weight.device() == x.device(),
      op,
      ": ",
      name,
      " must be on the device of x (",
      x.device(),
      "), got ",
      weight.device());
}

void check_same(
    const char* op,
    const char* x_name,
    const at::Tensor& x,
    const char* y_name,
    const at::Tensor& y) {
  TORCH_CHECK_VALUE(
      x.sym_sizes().equals(y.sym_sizes()),
      op,
      ": ",
      y_name,
      " must have the shape of ",
      x_name,
      " ",
      x.sym_sizes(),
      ", got ",
      y.sym_sizes());
  TORCH_CHECK_VALUE(
      x.scalar_type() == y.scalar_type(),
      op,
      ": ",
      y_name,
      " must have the dtype of ",
      x_name,
      " (",
      x.scalar_type(),
      "), got ",
      y.scalar_type());
  TORCH_CHECK_VALUE(
      x.device() == y.device(),
      op,
      ": ",
      y_name,
      " must be on the device of ",
      x_name,
      " (",
      x.device(),
      "), got ",
      y.device());
}

at::Tensor as_rows(const at::Tensor& x) {
  if (x.numel() == 0) return x.new_empty({0, x.size(-1)});
  at::Tensor rows = view_as_rows(x);
  return rows.defined() ? rows : x.contiguous().view({-1, x.size(-1)});
}

simd::ElementType element_type(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return simd::ElementType::kFloat32;
    case at::kBFloat16:
      return simd::ElementType::kBFloat16;
    default:
      TORCH_INTERNAL_ASSERT(tensor.scalar_type() == at::kHalf);
      return simd::ElementType::kFloat16;
  }
}

void for_rows(
    int64_t num_rows, int64_t row_size, const std::function<void(int64_t, int64_t)>& body) {
  const int64_t grain = std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, row_size));
  at::parallel_for(0, num_rows, grain, body);
}

at::Tensor sum_over_rows(
    int64_t num_rows, int64_t row_size, const std::function<void(int64_t, int64_t, float*)>& body) {
  if (num_rows == 0) return at::zeros({row_size}, at::kFloat);
  const int64_t rows_per_share = std::max(kMinRowsPerShare, divide_up(num_rows, kMaxShares));
  const int64_t num_shares = divide_up(num_rows, rows_per_share);
  at::Tensor shares = at::empty({num_shares, row_size}, at::kFloat);
  float* data = shares.mutable_data_ptr<float>();
  const int64_t grain =
      std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, rows_per_share * row_size));
  at::parallel_for(0, num_shares, grain, [&](int64_t begin, int64_t end) {
    for (int64_t share = begin; share < end; ++share) {
      const int64_t first = share * rows_per_share;
      body(first, std::min(num_rows, first + rows_per_share), data + share * row_size);
    }
  });
  at::Tensor total = shares.select(0, 0).clone();
  float* sum = total.mutable_data_ptr<float>();
  for (int64_t share = 1; share < num_shares; ++share) {
    const float* from = data + share * row_size;
    for (int64_t i = 0; i < row_size; ++i) sum[i] += from[i];
  }
  return total;
}

}  // namespace mindspeed::ops
