// SPDX-License-Identifier: Apache-2.0
// The products of a linear layer y = x W^T + b, forward and backward, for autograd steps that keep
// less than torch's own linear. The float32 weight is cast to x's dtype at use, both ways. Shapes:
// x [T, inputs], W [outputs, inputs], b [outputs], grad [T, outputs].
#pragma once

#include <ATen/core/Tensor.h>

namespace mindspeed::models {

/// y = x W^T + b; an undefined bias counts as none.
at::Tensor linear_forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

/// total += grad W; an undefined total starts it.
void add_input_gradient(at::Tensor& total, const at::Tensor& grad, const at::Tensor& weight);

/// grad^T x in the weight's dtype; undefined where the weight is not trained.
at::Tensor weight_gradient(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight);

/// The sum of grad's rows in `dtype`.
at::Tensor bias_gradient(const at::Tensor& grad, at::ScalarType dtype);

}  // namespace mindspeed::models
