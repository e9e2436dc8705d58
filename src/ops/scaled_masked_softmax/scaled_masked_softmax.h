// SPDX-License-Identifier: Apache-2.0
// The softmax of attention scores, scale and mask in the same pass (Shoeybi et al. 2019,
// Megatron-LM, arXiv 1909.08053):  y = softmax(scale * x, masked scores left out)
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "export.h"

namespace mindspeed::ops {

// x [..., S, L] (scores of S queries over L keys): float32, bfloat16, float16 or float64. mask:
// bool, broadcast to x, true where a score is left out. causal: query i sees keys up to i + L - S.
// A query that sees no key gives zeros, and zero gradients. Softmax over the last dim in float32,
// rounded once. Backward keeps the result only. Raises ValueError for other shapes, dtypes or
// devices.
MINDSPEED_API at::Tensor scaled_masked_softmax(
    const at::Tensor& x,
    const std::optional<at::Tensor>& mask = std::nullopt,
    double scale = 1.0,
    bool causal = false);

// The gradient of x from the result y:  scale * y * (grad - sum(grad * y))
at::Tensor scaled_masked_softmax_backward(
    const at::Tensor& grad, const at::Tensor& y, double scale, bool causal);

void check_scaled_masked_softmax(const at::Tensor& x, const std::optional<at::Tensor>& mask);

namespace reference {

// Plain ATen, any device.
at::Tensor scaled_masked_softmax(
    const at::Tensor& x, const std::optional<at::Tensor>& mask, double scale, bool causal);
at::Tensor scaled_masked_softmax_backward(
    const at::Tensor& grad, const at::Tensor& y, double scale, bool causal);

}  // namespace reference
}  // namespace mindspeed::ops
