// SPDX-License-Identifier: Apache-2.0
// Names the first place where a training step went non-finite, by replaying it and looking at every
// output.
#pragma once

#include <string>
#include <vector>

#include "models/causal_lm.h"

namespace mindspeed::train {

/// Replays forward (and, when all outputs are finite, backward) of the micro batches. Returns
/// "<path> (parameter)", "<path> (forward), micro batch <i>" or "<path> (backward), micro batch
/// <i>"; an empty string when everything is finite. `loss_scale` multiplies the loss as the step
/// did. Leaves the parameters' gradients as they were.
std::string find_non_finite(
    models::CausalLM& model,
    const std::vector<models::MicroBatch>& micro_batches,
    double z_loss,
    double loss_scale);

}  // namespace mindspeed::train
