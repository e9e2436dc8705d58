// SPDX-License-Identifier: Apache-2.0
// Which experts a token goes to, and with what weights (Shazeer et al. 2017, arXiv 1701.06538;
// DeepSeek-V3, arXiv 2412.19437, section 2.1.2).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>

#include "export.h"

namespace mindspeed::ops {

// logits [T, E]: float32, bfloat16, float16 or float64. scores s = softmax or sigmoid of them, in
// float32 (float64 for float64). A token's experts are the top_k largest s + correction_bias [E],
// largest first, of equal ones the lower number first. num_groups > 1 keeps only the experts of the
// best top_k_groups groups of E / num_groups neighbours; a group counts by its best expert, with a
// correction bias by the sum of its best two. Weights are s of the chosen (without bias), divided
// by their sum with renormalize, times scaling_factor.
//
// Returns (weights [T, top_k] in the arithmetic's dtype, experts int64 [T, top_k],
// tokens_per_expert int64 [E]). Differentiable in logits through the weights; backward keeps logits
// and experts. Raises ValueError for other shapes, dtypes, devices, and for numbers that do not fit
// each other.
MINDSPEED_API std::tuple<at::Tensor, at::Tensor, at::Tensor> moe_router(
    const at::Tensor& logits,
    int64_t top_k,
    std::string_view score = "softmax",
    const std::optional<at::Tensor>& correction_bias = std::nullopt,
    int64_t num_groups = 1,
    int64_t top_k_groups = 1,
    bool renormalize = true,
    double scaling_factor = 1.0);

// The gradient of logits.
at::Tensor moe_router_backward(
    const at::Tensor& grad_weights,
    const at::Tensor& logits,
    const at::Tensor& experts,
    std::string_view score,
    bool renormalize,
    double scaling_factor);

void check_moe_router(
    const at::Tensor& logits,
    int64_t top_k,
    std::string_view score,
    const std::optional<at::Tensor>& correction_bias,
    int64_t num_groups,
    int64_t top_k_groups);

namespace reference {

// Plain ATen, any device.
std::tuple<at::Tensor, at::Tensor, at::Tensor> moe_router(
    const at::Tensor& logits,
    int64_t top_k,
    std::string_view score,
    const std::optional<at::Tensor>& correction_bias,
    int64_t num_groups,
    int64_t top_k_groups,
    bool renormalize,
    double scaling_factor);
at::Tensor moe_router_backward(
    const at::Tensor& grad_weights,
    const at::Tensor& logits,
    const at::Tensor& experts,
    std::string_view score,
    bool renormalize,
    double scaling_factor);

}  // namespace reference
}  // namespace mindspeed::ops
