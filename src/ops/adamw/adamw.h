// SPDX-License-Identifier: Apache-2.0
// AdamW with decoupled decay (Loshchilov and Hutter 2019, arXiv 1711.05101), one pass over all
// parameters:
//   g = grad * grad_scale          p -= lr * weight_decay * p
//   m += (1 - beta1) (g - m)       v = beta2 v + (1 - beta2) g^2
//   p -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
#pragma once

#include <ATen/core/Tensor.h>

#include "export.h"
#include "ops/adamw/settings.h"

namespace mindspeed::ops {

// Updates params, exp_avgs, exp_avg_sqs and masters in place; grads are only read and have the
// dtype of params. params are all float32 (or all float64) and masters empty; or all bfloat16 (or
// all float16), then masters are float32, p above is the master, and the parameter is its rounded
// copy. Moments are float32 (float64 for float64). All on one device; all but grads contiguous.
// Rounds in the order of torch.optim.AdamW(foreach=False, fused=False), which it equals to a few
// ulp. The result is the same on any number of threads. Not differentiable. Raises ValueError for
// lists that do not match and for settings out of their range.
MINDSPEED_API void adamw_(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    at::TensorList masters,
    const AdamWSettings& settings);

void check_adamw(
    const AdamWSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    at::TensorList masters);

// Raises ValueError, in the name of operator `op`, for a setting out of its range.
void check_settings(const char* op, const AdamWSettings& settings);

namespace reference {

// Plain ATen, any device.
void adamw_(
    const AdamWSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    at::TensorList masters);

}  // namespace reference
}  // namespace mindspeed::ops
