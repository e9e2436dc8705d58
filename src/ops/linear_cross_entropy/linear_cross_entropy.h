// SPDX-License-Identifier: Apache-2.0
// The output layer and the cross-entropy in one operator that never holds all logits (as in Liger
// Kernel, Hsu et al. 2024, and Wijmans et al. 2024): a chunk of tokens at a time, its gradient
// computed while its logits are there.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "export.h"

namespace mindspeed::ops {

/// loss_sum = sum over tokens with label != ignore_index of  lse_t - logit_t[label_t] + z_loss *
/// lse_t^2, logits = hidden weight^T, lse = log sum exp of a token's logits.
///
/// hidden [T, N] and weight [V, N] of one dtype (float64, float32, bfloat16, float16); labels int64
/// [T]. Returns (loss_sum, float32 scalar, float64 for float64 inputs; num_valid, int64 scalar).
/// Differentiable in hidden and weight; their gradients are computed in forward when they will be
/// needed. Throws ValueError on other shapes or dtypes, IndexError on a label outside [0, V).
MINDSPEED_API std::tuple<at::Tensor, at::Tensor> linear_cross_entropy(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    int64_t ignore_index = -100,
    double z_loss = 0.0);

/// The same in one pass of a dispatcher operator: (loss_sum, num_valid, grad_hidden, grad_weight);
/// a gradient that is not asked for comes back with no elements.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> linear_cross_entropy_forward(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    int64_t ignore_index,
    double z_loss,
    bool need_grad_hidden,
    bool need_grad_weight);

namespace reference {
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> linear_cross_entropy_forward(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    int64_t ignore_index,
    double z_loss,
    bool need_grad_hidden,
    bool need_grad_weight);
}  // namespace reference

/// Checks shapes and dtypes; called by the operator and by its fake kernel.
void check_linear_cross_entropy(
    const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels);

}  // namespace mindspeed::ops
