// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/mlp.h"

#include "models/activation_observer.h"
#include "ops/swiglu/swiglu.h"

namespace mindspeed::models {

Mlp::Mlp(BuildContext& context, std::string path, const ModelSpec& spec) : Block(std::move(path)) {
  const int64_t hidden = spec.hidden_size;
  const int64_t intermediate = spec.mlp.intermediate_size;
  auto linear = [&](const char* name, int64_t inputs, int64_t outputs, LinearSplit split) {
    return register_module(
        name,
        std::make_shared<Linear>(context, child(name), inputs, outputs, spec.mlp.bias, split));
  };
  gate_ = linear("gate_proj", hidden, intermediate, LinearSplit::kOutputs);
  up_ = linear("up_proj", hidden, intermediate, LinearSplit::kOutputs);
  down_ = linear("down_proj", intermediate, hidden, LinearSplit::kInputs);
}

at::Tensor Mlp::forward(const at::Tensor& x_TN) {
  at::Tensor activated = ops::swiglu(gate_->forward(x_TN), up_->forward(x_TN));
  observe_activation(child("swiglu"), activated);
  return down_->forward(activated);
}

}  // namespace mindspeed::models
