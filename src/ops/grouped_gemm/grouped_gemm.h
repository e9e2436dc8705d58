// SPDX-License-Identifier: Apache-2.0
// One linear map an expert, over rows sorted by expert:  out[r] = rows[r] weight[expert of r]
// (the dense form of MegaBlocks, Gale et al. 2022, arXiv 2211.15841).
#pragma once

#include <ATen/core/Tensor.h>

#include "export.h"

namespace mindspeed::ops {

// rows [R, K] of moe_permute and weight [E, K, N] of one dtype: float32, bfloat16, float16 or
// float64; tokens_per_expert int64 [E] of moe_router, its sum R; experts without rows are allowed.
// Returns [R, N]. A GEMM a group of rows, or one batched GEMM where all groups
// are equal; on a device the group sizes are read back first, and on a CPU without 16-bit GEMM the
// operands are widened to float32 a group at a time. Differentiable in rows and weight; backward
// keeps all three inputs. Raises ValueError for other shapes, dtypes, devices, and counts that do
// not add up to R.
MINDSPEED_API at::Tensor grouped_gemm(
    const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& tokens_per_expert);

// The gradient of weight [E, K, N]:  rows^T grad of each group, zero for an empty one.
MINDSPEED_API at::Tensor grouped_gemm_weight_gradient(
    const at::Tensor& rows, const at::Tensor& grad, const at::Tensor& tokens_per_expert);

// The same, added straight into grad_weight [E, K, N] of the rows' dtype or float32 (see
// linear_weight_gradient_). Not differentiable.
MINDSPEED_API void grouped_gemm_weight_gradient_(
    const at::Tensor& grad_weight,
    const at::Tensor& rows,
    const at::Tensor& grad,
    const at::Tensor& tokens_per_expert);

}  // namespace mindspeed::ops
