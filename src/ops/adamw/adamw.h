// SPDX-License-Identifier: Apache-2.0
// AdamW with decoupled decay (Loshchilov and Hutter 2019, arXiv 1711.05101), one pass over all
// parameters:
//   g = grad * grad_scale          p -= lr * weight_decay * p
//   m += (1 - beta1) (g - m)       v = beta2 v + (1 - beta2) g^2
//   p -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
#pragma once

#include <ATen/core/Tensor.h>

#include "export.h"

namespace mindspeed::ops {

// Updates params, exp_avgs and exp_avg_sqs in place; grads are only read. All float32 (or all
// float64), on one device; params and moments contiguous. Rounds in the order of
// torch.optim.AdamW(foreach=False, fused=False), which it equals to a few ulp. step counts from 1.
// Not differentiable. Raises ValueError for lists that do not match.
MINDSPEED_API void adamw_(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    double lr,
    double beta1,
    double beta2,
    double eps,
    double weight_decay,
    int64_t step,
    double grad_scale);

void check_adamw(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    int64_t step);

namespace reference {

// Plain ATen, any device.
void adamw_(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    double lr,
    double beta1,
    double beta2,
    double eps,
    double weight_decay,
    int64_t step,
    double grad_scale);

}  // namespace reference
}  // namespace mindspeed::ops
