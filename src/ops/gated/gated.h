// SPDX-License-Identifier: Apache-2.0
// y = f(gate) * up over tensors: the part that swiglu and geglu share.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "ops/gated/kernel.h"

namespace mindspeed::ops {

void check_gated(const char* op, const at::Tensor& gate, const at::Tensor& up);

at::Tensor gated_forward_cpu(
    const at::Tensor& gate, const at::Tensor& up, GatedForwardKernel kernel);

// (grad_gate, grad_up)
std::tuple<at::Tensor, at::Tensor> gated_backward_cpu(
    const at::Tensor& grad,
    const at::Tensor& gate,
    const at::Tensor& up,
    GatedBackwardKernel kernel);

// Contiguous tensors of the inputs' shape: the shapes of gradients, without values.
std::tuple<at::Tensor, at::Tensor> gated_backward_fake(
    const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up);

}  // namespace mindspeed::ops
