// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/linear_gradients.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

namespace mindspeed::models {

at::Tensor linear_forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  std::optional<at::Tensor> cast_bias;
  if (bias.defined()) cast_bias = bias.to(x.scalar_type());
  return at::linear(x, weight.to(x.scalar_type()), cast_bias);
}

void add_input_gradient(at::Tensor& total, const at::Tensor& grad, const at::Tensor& weight) {
  const at::Tensor cast_weight = weight.to(grad.scalar_type());
  if (total.defined()) {
    total.addmm_(grad, cast_weight);
  } else {
    total = at::mm(grad, cast_weight);
  }
}

at::Tensor weight_gradient(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight) {
  if (!weight.requires_grad()) return at::Tensor();
  return at::mm(grad.t(), x).to(weight.scalar_type());
}

at::Tensor bias_gradient(const at::Tensor& grad, at::ScalarType dtype) {
  return grad.sum(at::IntArrayRef{0}, /*keepdim=*/false, dtype);
}

}  // namespace mindspeed::models
