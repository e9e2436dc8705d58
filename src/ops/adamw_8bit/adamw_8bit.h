// SPDX-License-Identifier: Apache-2.0
// AdamW whose moments are stored in 8 bits (Dettmers et al. 2022, "8-bit Optimizers via Block-wise
// Quantization", arXiv 2110.02861): a quarter of float32's memory. A block of 256 elements has a
// code an element and one float32 scale, its largest magnitude; the codes' values stand in
// dynamic_map.h. The step is adamw_'s, on the moments that the codes stand for; weights are updated
// from the new moments before those are rounded to codes.
#pragma once

#include <ATen/core/Tensor.h>

#include "export.h"
#include "ops/adamw/settings.h"

namespace mindspeed::ops {

struct QuantisedMoments {
  at::TensorList codes;   // uint8, shaped as the parameters
  at::TensorList scales;  // float32, one a block of a parameter: [ceil(elements / 256)]
};

// Updates params, moments and masters in place; grads are only read. Lists as for adamw_, but
// float64 is refused. Moments that are all zeros are a start. The result is the same on any number
// of threads. Not differentiable. Raises ValueError for lists that do not match and for settings
// out of their range.
MINDSPEED_API void adamw_8bit_(
    at::TensorList params,
    at::TensorList grads,
    const QuantisedMoments& exp_avgs,
    const QuantisedMoments& exp_avg_sqs,
    at::TensorList masters,
    const AdamWSettings& settings);

void check_adamw_8bit(
    const AdamWSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_scales,
    at::TensorList exp_avg_sqs,
    at::TensorList exp_avg_sq_scales,
    at::TensorList masters);

namespace reference {

// Plain ATen, any device.
void adamw_8bit_(
    const AdamWSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_scales,
    at::TensorList exp_avg_sqs,
    at::TensorList exp_avg_sq_scales,
    at::TensorList masters);

}  // namespace reference
}  // namespace mindspeed::ops
