// SPDX-License-Identifier: Apache-2.0
// Cross entropy of given logits; its formula stands at CrossEntropySettings.
// Training a language model, use linear_cross_entropy: it never holds the logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "export.h"
#include "ops/cross_entropy/settings.h"

namespace mindspeed::ops {

// logits [T, V]: float32, bfloat16, float16 or float64; labels [T]: int64 in [0, V) or
// ignore_index. Returns [T] in float32 (float64 for float64), 0 where the label is ignored.
// Backward keeps logits and two floats a row. Raises ValueError for other shapes, dtypes, devices,
// for a setting out of its range, and for a label outside [0, V) (on a CPU).
MINDSPEED_API at::Tensor cross_entropy(
    const at::Tensor& logits, const at::Tensor& labels, const CrossEntropySettings& settings = {});

// (loss [T], maximum [T], log_sum [T]), the last two so that maximum + log_sum is the logarithm of
// the summed e^s.
std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy_forward(
    const CrossEntropySettings& settings, const at::Tensor& logits, const at::Tensor& labels);

// The gradient of the logits.
at::Tensor cross_entropy_backward(
    const CrossEntropySettings& settings,
    const at::Tensor& grad,
    const at::Tensor& logits,
    const at::Tensor& labels,
    const at::Tensor& maximum,
    const at::Tensor& log_sum);

void check_cross_entropy(
    const CrossEntropySettings& settings, const at::Tensor& logits, const at::Tensor& labels);

// Raises ValueError, in the name of operator `op`, for a setting out of its range.
void check_settings(const char* op, const CrossEntropySettings& settings);

namespace reference {

// Plain ATen, any device.
std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy_forward(
    const CrossEntropySettings& settings, const at::Tensor& logits, const at::Tensor& labels);
at::Tensor cross_entropy_backward(
    const CrossEntropySettings& settings,
    const at::Tensor& grad,
    const at::Tensor& logits,
    const at::Tensor& labels,
    const at::Tensor& maximum,
    const at::Tensor& log_sum);

}  // namespace reference
}  // namespace mindspeed::ops
