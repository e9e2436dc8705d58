// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/linear.h"

#include <torch/csrc/autograd/custom_function.h>

#include "models/activation_observer.h"
#include "models/blocks/linear_gradients.h"

namespace mindspeed::models {
namespace {

// torch's linear over a cast weight would keep the cast copy until backward; this keeps the
// parameter.
class LinearProduct : public torch::autograd::Function<LinearProduct> {
 public:
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight,
      const std::optional<at::Tensor>& bias) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias.has_value();
    return linear_forward(x, weight, bias.value_or(at::Tensor()));
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const auto kept = context->get_saved_variables();
    const at::Tensor& weight = kept[1];
    const bool has_bias = context->saved_data["bias"].toBool();
    at::Tensor grad_x;
    add_input_gradient(grad_x, grads[0], weight);
    return {
        grad_x,
        weight_gradient(grads[0], kept[0], weight),
        has_bias ? bias_gradient(grads[0], weight.scalar_type()) : at::Tensor()};
  }
};

}  // namespace

Linear::Linear(
    BuildContext& context,
    std::string path,
    int64_t inputs,
    int64_t outputs,
    bool bias,
    LinearSplit split)
    : Block(std::move(path)) {
  const bool by_outputs = split == LinearSplit::kOutputs;
  weight_ = declare(context, "weight", {{outputs, inputs}, "tensor", by_outputs ? 0 : 1});
  if (bias) bias_ = declare(context, "bias", {{outputs}, by_outputs ? "tensor" : "", 0});
}

at::Tensor Linear::forward(const at::Tensor& x) {
  const auto bias = bias_.defined() ? std::optional(bias_) : std::nullopt;
  at::Tensor y = LinearProduct::apply(x, weight_, bias);
  observe_activation(path(), y);
  return y;
}

}  // namespace mindspeed::models
