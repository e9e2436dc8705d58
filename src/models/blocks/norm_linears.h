// SPDX-License-Identifier: Apache-2.0
// A norm and the linear layers that read it, as one autograd step: the normalised activation is
// rebuilt in backward from the residual sum, which is kept anyway, and the layers' gradients add up
// in place.
#pragma once

#include "models/blocks/linear.h"
#include "models/blocks/norm.h"

namespace mindspeed::models {

/// Folds the pending delta into `stream` (whose sum is the norm's input afterwards) and returns
/// y_i = norm(sum) W_i^T + b_i of every layer, in order. Keeps sum and the float32 parameters: no
/// normalised activation and no cast weight stays until backward.
std::vector<at::Tensor> norm_linears(
    const Norm& norm, const std::vector<const Linear*>& linears, ResidualStream& stream);

}  // namespace mindspeed::models
