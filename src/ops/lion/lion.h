// SPDX-License-Identifier: Apache-2.0
// Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", arXiv 2302.06675), one
// pass over all parameters:
//   g = grad * grad_scale
//   p = (1 - lr * weight_decay) p - lr sign(beta1 m + (1 - beta1) g)
//   m = beta2 m + (1 - beta2) g
#pragma once

#include <ATen/core/Tensor.h>

#include "export.h"
#include "ops/lion/settings.h"

namespace mindspeed::ops {

// Updates params, exp_avgs and masters in place; lists and dtypes as for adamw_, with one moment.
// sign(0) is 0. The result is the same on any number of threads. Not differentiable. Raises
// ValueError for lists that do not match and for settings out of their range.
MINDSPEED_API void lion_(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList masters,
    const LionSettings& settings);

void check_lion(
    const LionSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList masters);

namespace reference {

// Plain ATen, any device.
void lion_(
    const LionSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList masters);

}  // namespace reference
}  // namespace mindspeed::ops
