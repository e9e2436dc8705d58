// SPDX-License-Identifier: Apache-2.0
// The output layer and the cross-entropy in one operator that never holds all logits (as in Liger
// Kernel, Hsu et al. 2024, and Wijmans et al. 2024): a chunk of tokens at a time, its gradient
// computed while its logits are there.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "export.h"
#include "ops/cross_entropy/settings.h"

namespace mindspeed::ops {

/// The sum over tokens of the cross entropy of logits = hidden weight^T; the formula stands at
/// CrossEntropySettings.
///
/// hidden [T, N] and weight [V, N] of one dtype (float64, float32, bfloat16, float16); labels int64
/// [T]. Returns (loss_sum, float32 scalar, float64 for float64 inputs; num_valid, int64 scalar: the
/// tokens whose label is not ignore_index; num_correct, int64 scalar: those of them no logit of
/// which is larger than the label's). Differentiable in hidden and weight; their gradients are
/// computed in forward when they will be needed. Throws ValueError on other shapes or dtypes and on
/// a setting out of its range, IndexError on a label outside [0, V).
MINDSPEED_API std::tuple<at::Tensor, at::Tensor, at::Tensor> linear_cross_entropy(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    const CrossEntropySettings& settings = {});

using LinearCrossEntropyResults =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// The same in one pass of a dispatcher operator: (loss_sum, num_valid, num_correct, grad_hidden,
/// grad_weight); a gradient that is not asked for comes back with no elements.
LinearCrossEntropyResults linear_cross_entropy_forward(
    const CrossEntropySettings& settings,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    bool need_grad_hidden,
    bool need_grad_weight);

namespace reference {
LinearCrossEntropyResults linear_cross_entropy_forward(
    const CrossEntropySettings& settings,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    bool need_grad_hidden,
    bool need_grad_weight);
}  // namespace reference

/// Checks settings, shapes and dtypes; called by the operators and by their fake kernels.
void check_linear_cross_entropy(
    const CrossEntropySettings& settings,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels);

}  // namespace mindspeed::ops
