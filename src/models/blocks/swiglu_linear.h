// SPDX-License-Identifier: Apache-2.0
// SwiGLU and the linear layer that reads it, as one autograd step: silu(gate) * up is rebuilt in
// backward from gate and up, which are kept anyway.
#pragma once

#include "models/blocks/linear.h"

namespace mindspeed::models {

/// (silu(gate) * up) W^T + b of layer `linear`; gate, up [T, intermediate] of one dtype. `path`
/// names the activation to observers.
at::Tensor swiglu_linear(
    const at::Tensor& gate, const at::Tensor& up, const Linear& linear, const std::string& path);

}  // namespace mindspeed::models
