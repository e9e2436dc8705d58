// SPDX-License-Identifier: Apache-2.0
#include "memory/recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

namespace mindspeed::memory {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct KeptFunction : torch::CustomClassHolder {
  explicit KeptFunction(TensorFunction kept) : function(std::move(kept)) {}
  TensorFunction function;
};

class Recomputed : public torch::autograd::Function<Recomputed> {
 public:
  static variable_list forward(
      AutogradContext* context,
      at::TensorList inputs,
      const c10::intrusive_ptr<KeptFunction>& kept) {
    context->save_for_backward(inputs.vec());
    context->saved_data["function"] = c10::IValue::make_capsule(kept);
    return kept->function(inputs.vec());
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto kept = c10::static_intrusive_pointer_cast<KeptFunction>(
        context->saved_data["function"].toCapsule());
    variable_list inputs;
    for (const at::Tensor& input : context->get_saved_variables()) {
      inputs.push_back(input.detach().requires_grad_(input.requires_grad()));
    }
    run_again(*kept, inputs, grads);
    variable_list result;
    for (const at::Tensor& input : inputs) result.push_back(input.grad());
    result.emplace_back();  // of the function
    return result;
  }

 private:
  // Leaves the gradients in `inputs` and in the parameters that the function uses.
  static void run_again(
      const KeptFunction& kept, const variable_list& inputs, variable_list& grads) {
    at::AutoGradMode with_gradients(true);
    const variable_list outputs = kept.function(inputs);
    variable_list roots;
    variable_list root_grads;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad()) continue;
      roots.push_back(outputs[i]);
      root_grads.push_back(std::move(grads[i]));
    }
    torch::autograd::backward(roots, root_grads);
  }
};

}  // namespace

std::vector<at::Tensor> recompute(
    const TensorFunction& function, const std::vector<at::Tensor>& inputs) {
  const bool needed = at::GradMode::is_enabled() &&
                      std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& x) {
                        return x.requires_grad();
                      });
  if (!needed) return function(inputs);
  return Recomputed::apply(at::TensorList(inputs), c10::make_intrusive<KeptFunction>(function));
}

}  // namespace mindspeed::memory
