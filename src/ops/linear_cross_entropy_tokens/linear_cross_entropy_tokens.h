// SPDX-License-Identifier: Apache-2.0
// linear_cross_entropy a token: each token's loss and its label's log-probability, both
// differentiable, for losses that weigh tokens (post-training). All logits are never held: backward
// computes a chunk's logits again, which costs one more GEMM than linear_cross_entropy's gradients
// in forward, for those need every token's upstream gradient to be the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "export.h"
#include "ops/cross_entropy/settings.h"

namespace mindspeed::ops {

/// hidden [T, N], weight [V, N], labels [T] and settings as for linear_cross_entropy. Returns
/// (losses, log_probs, correct), each [T]: the loss by the formula at CrossEntropySettings; the
/// logarithm of the softmax (after the softcap) at the label; whether no logit is larger than the
/// label's. Ignored tokens have 0, 0 and false. losses and log_probs are float32 (float64 for
/// float64) and differentiable in hidden and weight; backward keeps only the inputs. Throws as
/// linear_cross_entropy does.
MINDSPEED_API std::tuple<at::Tensor, at::Tensor, at::Tensor> linear_cross_entropy_tokens(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    const CrossEntropySettings& settings = {});

std::tuple<at::Tensor, at::Tensor, at::Tensor> linear_cross_entropy_tokens_forward(
    const CrossEntropySettings& settings,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels);

/// (grad_hidden, grad_weight) from the gradients of losses and log_probs; one that is not asked for
/// comes back with no elements.
std::tuple<at::Tensor, at::Tensor> linear_cross_entropy_tokens_backward(
    const CrossEntropySettings& settings,
    const at::Tensor& grad_losses,
    const at::Tensor& grad_log_probs,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    bool need_grad_hidden,
    bool need_grad_weight);

namespace reference {

// Plain ATen, any device; holds all logits.
std::tuple<at::Tensor, at::Tensor, at::Tensor> linear_cross_entropy_tokens_forward(
    const CrossEntropySettings& settings,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels);
std::tuple<at::Tensor, at::Tensor> linear_cross_entropy_tokens_backward(
    const CrossEntropySettings& settings,
    const at::Tensor& grad_losses,
    const at::Tensor& grad_log_probs,
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    bool need_grad_hidden,
    bool need_grad_weight);

}  // namespace reference
}  // namespace mindspeed::ops
