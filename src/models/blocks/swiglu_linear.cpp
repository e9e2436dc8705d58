// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/swiglu_linear.h"

#include <torch/csrc/autograd/custom_function.h>

#include "models/activation_observer.h"
#include "models/blocks/linear_gradients.h"
#include "ops/swiglu/swiglu.h"

namespace mindspeed::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class SwiGluLinear : public torch::autograd::Function<SwiGluLinear> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& gate,
      const at::Tensor& up,
      const at::Tensor& weight,
      const std::optional<at::Tensor>& bias,
      const std::string& path) {
    at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor activated = ops::swiglu(gate, up);
    observe_activation(path, activated);
    context->save_for_backward({gate, up, weight});
    context->saved_data["bias"] = bias.has_value();
    return linear_forward(activated, weight, bias.value_or(at::Tensor()));
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list kept = context->get_saved_variables();
    const at::Tensor& weight = kept[2];
    const at::Tensor grad_weight = weight_gradient(grads[0], ops::swiglu(kept[0], kept[1]), weight);
    at::Tensor grad_activated;
    add_input_gradient(grad_activated, grads[0], weight);
    auto [grad_gate, grad_up] = ops::swiglu_backward(grad_activated, kept[0], kept[1]);
    const bool has_bias = context->saved_data["bias"].toBool();
    return {
        grad_gate,
        grad_up,
        grad_weight,
        has_bias ? bias_gradient(grads[0], weight.scalar_type()) : at::Tensor(),
        at::Tensor()};
  }
};

}  // namespace

at::Tensor swiglu_linear(
    const at::Tensor& gate, const at::Tensor& up, const Linear& linear, const std::string& path) {
  const auto bias = linear.bias().defined() ? std::optional(linear.bias()) : std::nullopt;
  at::Tensor y = SwiGluLinear::apply(gate, up, linear.weight(), bias, path);
  observe_activation(linear.path(), y);
  return y;
}

}  // namespace mindspeed::models
