// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (Su et al. 2021, arXiv 2104.09864): every pair (a, b) of a head vector
// turns by its token's angle,  (a cos - b sin, b cos + a sin).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "export.h"

namespace mindspeed::ops {

// x [B, S, H, D] or [T, H, D]: float32, bfloat16, float16 or float64. cos, sin [P, R/2] with even R
// <= D, float32 (float64 for float64): a row for each position; the elements past R pass through.
// positions: int32 [T] or [B, S], each token's row; none: the token's place in its sequence. Pairs
// are (i, i + R/2), as Hugging Face's LLaMA has them; interleaved: (2i, 2i+1), as GPT-J, the first
// LLaMA and DeepSeek have them. Differentiable in x;
// backward keeps the tables only. Raises ValueError for other shapes, dtypes, devices, for
// positions outside the tables (on a CPU), and for tables that require gradients.
MINDSPEED_API at::Tensor rotary_embedding(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions = std::nullopt,
    bool interleaved = false);

// The same, over x's own memory (any strides that do not overlap). Differentiable; backward keeps
// the tables only. As for every in-place operator, x must be no leaf that requires a gradient, and
// what an earlier operation saved of x is lost to its backward.
MINDSPEED_API void rotary_embedding_(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions = std::nullopt,
    bool interleaved = false);

// The gradient of x: the rotation by the opposite angle.
at::Tensor rotary_embedding_backward(
    const at::Tensor& grad,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool interleaved);

void check_rotary_embedding(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions);

// check_rotary_embedding, and raises ValueError where elements of x share memory.
void check_rotary_embedding_in_place(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions);

namespace reference {

// Plain ATen, any device; inverse: the opposite angle.
at::Tensor rotary_embedding(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool interleaved,
    bool inverse);

}  // namespace reference
}  // namespace mindspeed::ops
