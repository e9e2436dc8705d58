// SPDX-License-Identifier: Apache-2.0
// Exact attention without the S x S matrix (Dao et al. 2022, arXiv 2205.14135; Dao 2023, arXiv
// 2307.08691).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "export.h"

namespace mindspeed::ops {

/// out = dropout(softmax(scores, masked)) v for each sequence and head; log_sum_exp of the masked
/// scores. scores = softcap(scale * q k^T) - slope * |distance|.
///
/// Batched: q [B, S, H, D], k [B, L, K, D], v [B, L, K, E]; H a multiple of K (query head h uses
/// key/value head h / (H / K)). Packed: q [T, H, D], k [U, K, D], v [U, K, E] with cu_seqlens_q and
/// cu_seqlens_k, int32 [documents + 1], first 0, last T (U); a document may be empty. One dtype of
/// float64, float32, bfloat16, float16; unit last stride, other strides free. Arithmetic in float32
/// (float64 for float64).
///
/// Query i stands at place p = i + L - S among the keys. causal: it sees keys j <= p. window_left,
/// window_right: keys p - left <= j <= p + right, -1 no bound; causal holds as well. A query that
/// sees no key gives 0 and log_sum_exp -inf (the sink, if there is one). scale: default 1 /
/// sqrt(D). softcap c > 0: s becomes c * tanh(s / c) (Gemma 2, arXiv 2408.00118). alibi_slopes
/// float32 [H]: adds -slope_h * |p - j| (Press et al. 2022, arXiv 2108.12409); not differentiable.
/// sinks [H], float32 (float64 for float64): one more score a head in the softmax's denominator,
/// without a value (gpt-oss; Xiao et al. 2024, arXiv 2309.17453). dropout in [0, 1): drops by a
/// hash of (seed, head, query token, key token).
///
/// Returns (out [.., H, E], log_sum_exp float32 [B, H, S] or [H, T]); both are differentiable in q,
/// k, v and sinks. Throws ValueError on other shapes, dtypes and arguments.
MINDSPEED_API std::tuple<at::Tensor, at::Tensor> flash_attention(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const std::optional<at::Tensor>& cu_seqlens_q = std::nullopt,
    const std::optional<at::Tensor>& cu_seqlens_k = std::nullopt,
    bool causal = false,
    std::optional<double> scale = std::nullopt,
    double dropout = 0.0,
    int64_t seed = 0,
    const std::optional<at::Tensor>& alibi_slopes = std::nullopt,
    const std::optional<at::Tensor>& sinks = std::nullopt,
    int64_t window_left = -1,
    int64_t window_right = -1,
    double softcap = 0.0);

}  // namespace mindspeed::ops
