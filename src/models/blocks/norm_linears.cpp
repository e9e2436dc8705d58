// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/norm_linears.h"

#include <torch/csrc/autograd/custom_function.h>

#include "models/activation_observer.h"
#include "models/blocks/linear_gradients.h"
#include "ops/add_rms_norm/add_rms_norm.h"
#include "ops/rms_norm/rms_norm.h"

namespace mindspeed::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class NormLinears : public torch::autograd::Function<NormLinears> {
 public:
  // Returns the residual sum, then the layers' outputs.
  static variable_list forward(
      AutogradContext* context,
      const at::Tensor& residual,
      const std::optional<at::Tensor>& delta,
      const at::Tensor& norm_weight,
      at::TensorList weights,
      at::TensorList biases,
      double eps,
      const std::string& norm_path) {
    at::AutoDispatchBelowADInplaceOrView below;
    at::Tensor normed;
    at::Tensor sum = residual;
    const at::Tensor cast_norm = norm_weight.to(residual.scalar_type());
    if (delta) {
      std::tie(normed, sum, std::ignore) =
          ops::add_rms_norm_forward(*delta, residual, cast_norm, eps);
    } else {
      std::tie(normed, std::ignore) = ops::rms_norm_forward(residual, cast_norm, eps);
    }
    observe_activation(norm_path, normed);
    variable_list outputs{sum};
    for (size_t i = 0; i < weights.size(); ++i) {
      outputs.push_back(
          linear_forward(normed, weights[i], i < biases.size() ? biases[i] : at::Tensor()));
    }
    variable_list kept{sum, norm_weight};
    kept.insert(kept.end(), weights.begin(), weights.end());
    context->save_for_backward(kept);
    context->saved_data["eps"] = eps;
    context->saved_data["delta"] = delta.has_value();
    context->saved_data["biases"] = static_cast<int64_t>(biases.size());
    return outputs;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list kept = context->get_saved_variables();
    const at::Tensor& sum = kept[0];
    const at::Tensor& norm_weight = kept[1];
    const bool has_delta = context->saved_data["delta"].toBool();
    const int64_t num_biases = context->saved_data["biases"].toInt();
    const at::Tensor cast_norm = norm_weight.to(sum.scalar_type());
    auto [normed, rstd] =
        ops::rms_norm_forward(sum, cast_norm, context->saved_data["eps"].toDouble());
    at::Tensor grad_normed;
    variable_list grad_weights;
    variable_list grad_biases;
    for (size_t i = 2; i < kept.size(); ++i) {
      const at::Tensor& grad = grads[i - 1];
      add_input_gradient(grad_normed, grad, kept[i]);
      grad_weights.push_back(weight_gradient(grad, normed, kept[i]));
      if (num_biases > 0) grad_biases.push_back(bias_gradient(grad, kept[i].scalar_type()));
    }
    normed.reset();
    auto [grad_sum, grad_norm_weight] =
        ops::rms_norm_backward(grad_normed, grads[0], sum, cast_norm, rstd);
    variable_list result{grad_sum};
    result.push_back(has_delta ? grad_sum : at::Tensor());
    result.push_back(grad_norm_weight.to(norm_weight.scalar_type()));
    result.insert(result.end(), grad_weights.begin(), grad_weights.end());
    result.insert(result.end(), grad_biases.begin(), grad_biases.end());
    result.resize(result.size() + 2);
    return result;
  }
};

}  // namespace

std::vector<at::Tensor> norm_linears(
    const Norm& norm, const std::vector<const Linear*>& linears, ResidualStream& stream) {
  std::vector<at::Tensor> weights;
  std::vector<at::Tensor> biases;
  for (const Linear* linear : linears) {
    weights.push_back(linear->weight());
    if (linear->bias().defined()) biases.push_back(linear->bias());
  }
  const auto delta = stream.delta.defined() ? std::optional(stream.delta) : std::nullopt;
  variable_list outputs = NormLinears::apply(
      stream.sum,
      delta,
      norm.weight(),
      at::TensorList(weights),
      at::TensorList(biases),
      norm.eps(),
      norm.path());
  stream = {outputs[0], at::Tensor()};
  observe_activation(norm.path() + ".residual", stream.sum);
  outputs.erase(outputs.begin());
  for (size_t i = 0; i < linears.size(); ++i) observe_activation(linears[i]->path(), outputs[i]);
  return outputs;
}

}  // namespace mindspeed::models
