// SPDX-License-Identifier: Apache-2.0
// Tensors as rows: what the operators' checks and cpu.cpp files share.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "simd/element_type.h"

namespace mindspeed::ops {

// float32, or float64 for a float64 tensor: the type the arithmetic and the saved statistics have.
at::ScalarType arithmetic_type(const at::Tensor& x);

// Raises ValueError unless the tensor is float64, float32, bfloat16 or float16.
void check_float(const char* op, const char* name, const at::Tensor& tensor);

// Raises ValueError unless `weight` has shape [last dim of x] and the dtype of x or float32.
void check_row_weight(
    const char* op, const at::Tensor& x, const char* name, const at::Tensor& weight);

// Raises ValueError unless both have the same shape, dtype and device.
void check_same(
    const char* op,
    const char* x_name,
    const at::Tensor& x,
    const char* y_name,
    const at::Tensor& y);

// x [..., N] as [rows, N] with unit stride inside a row. Copies only where the strides leave no
// other way.
at::Tensor as_rows(const at::Tensor& x);

// The kernels' name for a float32, bfloat16 or float16 tensor's dtype.
simd::ElementType element_type(const at::Tensor& tensor);

// Runs body(begin, end) over [0, num_rows) on torch's threads, at least ~16 K elements a piece.
void for_rows(
    int64_t num_rows, int64_t row_size, const std::function<void(int64_t, int64_t)>& body);

// A gradient that sums over rows: body(begin, end, share) writes the share [row_size] of rows
// [begin, end). How rows are cut and in which order shares are added depends on the shape alone, so
// the result is the same on any number of threads. Returns float32 [row_size].
at::Tensor sum_over_rows(
    int64_t num_rows, int64_t row_size, const std::function<void(int64_t, int64_t, float*)>& body);

}  // namespace mindspeed::ops
