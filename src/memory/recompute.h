// SPDX-License-Identifier: Apache-2.0
// Activation recomputation (Chen et al. 2016, arXiv 1604.06174).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "export.h"

namespace mindspeed::memory {

using TensorFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// function(inputs), keeping nothing for backward but `inputs`: backward runs `function` again and
/// then its backward. `function` must give the same values both times (random numbers from a
/// counter, not from a generator's state) and may use parameters, whose gradients accumulate as
/// usual. Without gradients, or when no input needs one, it is simply called.
MINDSPEED_API std::vector<at::Tensor> recompute(
    const TensorFunction& function, const std::vector<at::Tensor>& inputs);

}  // namespace mindspeed::memory
