// SPDX-License-Identifier: Apache-2.0
// Cross entropy of given logits:  loss[t] = log(sum_v e^logits[t, v]) - logits[t, labels[t]]
// Training a language model, use linear_cross_entropy: it never holds the logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "export.h"

namespace mindspeed::ops {

// logits [T, V]: float32, bfloat16, float16 or float64; labels [T]: int64 in [0, V) or
// ignore_index. Returns [T] in float32 (float64 for float64), 0 where the label is ignored.
// Backward keeps logits and two floats a row. Raises ValueError for other shapes, dtypes, devices,
// and for a label outside [0, V) (on a CPU).
MINDSPEED_API at::Tensor cross_entropy(
    const at::Tensor& logits, const at::Tensor& labels, int64_t ignore_index = -100);

// (loss [T], maximum [T], log_sum [T]), the last two so that maximum + log_sum is the logarithm of
// the summed e^logit
std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy_forward(
    const at::Tensor& logits, const at::Tensor& labels, int64_t ignore_index);

// The gradient of the logits.
at::Tensor cross_entropy_backward(
    const at::Tensor& grad,
    const at::Tensor& logits,
    const at::Tensor& labels,
    const at::Tensor& maximum,
    const at::Tensor& log_sum,
    int64_t ignore_index);

void check_cross_entropy(const at::Tensor& logits, const at::Tensor& labels);

namespace reference {

// Plain ATen, any device.
std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy_forward(
    const at::Tensor& logits, const at::Tensor& labels, int64_t ignore_index);
at::Tensor cross_entropy_backward(
    const at::Tensor& grad,
    const at::Tensor& logits,
    const at::Tensor& labels,
    const at::Tensor& maximum,
    const at::Tensor& log_sum,
    int64_t ignore_index);

}  // namespace reference
}  // namespace mindspeed::ops
