// SPDX-License-Identifier: Apache-2.0
// Exact attention without the S x S matrix (Dao et al. 2022, arXiv 2205.14135; Dao 2023, arXiv
// 2307.08691).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "export.h"

namespace mindspeed::ops {

/// out = dropout(softmax(scale * q k^T, masked)) v for each sequence and head; log_sum_exp of the
/// masked scores.
///
/// Batched: q [B, S, H, D], k [B, L, K, D], v [B, L, K, E]; H a multiple of K (query head h uses
/// key/value head h / (H / K)). Packed: q [T, H, D], k [U, K, D], v [U, K, E] with cu_seqlens_q and
/// cu_seqlens_k, int32 [documents + 1], first 0, last T (U); a document may be empty. One dtype of
/// float64, float32, bfloat16, float16; unit last stride, other strides free. Arithmetic in float32
/// (float64 for float64). causal: query i sees keys j <= i + L - S. A query that sees no key gives
/// 0 and log_sum_exp -inf. scale: default 1 / sqrt(D). dropout in [0, 1): drops by a hash of (seed,
/// head, query token, key token). Returns (out [.., H, E], log_sum_exp float32 [B, H, S] or [H,
/// T]); differentiable in q, k, v through out only. Throws ValueError on other shapes, dtypes and
/// arguments.
MINDSPEED_API std::tuple<at::Tensor, at::Tensor> flash_attention(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const std::optional<at::Tensor>& cu_seqlens_q = std::nullopt,
    const std::optional<at::Tensor>& cu_seqlens_k = std::nullopt,
    bool causal = false,
    std::optional<double> scale = std::nullopt,
    double dropout = 0.0,
    int64_t seed = 0);

/// Dispatcher operators behind it; flash_attention_backward gives (grad_q, grad_k, grad_v).
std::tuple<at::Tensor, at::Tensor> flash_attention_forward(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const std::optional<at::Tensor>& cu_seqlens_q,
    const std::optional<at::Tensor>& cu_seqlens_k,
    bool causal,
    double scale,
    double dropout,
    int64_t seed);
std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_attention_backward(
    const at::Tensor& grad_out,
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const at::Tensor& out,
    const at::Tensor& log_sum_exp,
    const std::optional<at::Tensor>& cu_seqlens_q,
    const std::optional<at::Tensor>& cu_seqlens_k,
    bool causal,
    double scale,
    double dropout,
    int64_t seed);

/// Checks shapes and dtypes; called by the operator and by its fake kernel.
void check_flash_attention(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const std::optional<at::Tensor>& cu_seqlens_q,
    const std::optional<at::Tensor>& cu_seqlens_k,
    double dropout);

namespace reference {  // plain ATen on any device; builds each sequence's scores
std::tuple<at::Tensor, at::Tensor> flash_attention_forward(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const std::optional<at::Tensor>& cu_seqlens_q,
    const std::optional<at::Tensor>& cu_seqlens_k,
    bool causal,
    double scale,
    double dropout,
    int64_t seed);
std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_attention_backward(
    const at::Tensor& grad_out,
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const at::Tensor& out,
    const at::Tensor& log_sum_exp,
    const std::optional<at::Tensor>& cu_seqlens_q,
    const std::optional<at::Tensor>& cu_seqlens_k,
    bool causal,
    double scale,
    double dropout,
    int64_t seed);
}  // namespace reference

}  // namespace mindspeed::ops
