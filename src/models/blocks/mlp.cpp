// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/mlp.h"

#include "models/blocks/norm_linears.h"
#include "models/blocks/swiglu_linear.h"

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

at::Tensor Mlp::forward(const Norm& norm, ResidualStream& stream) {
  const std::vector<at::Tensor> gate_and_up = norm_linears(norm, {gate_.get(), up_.get()}, stream);
  return swiglu_linear(gate_and_up[0], gate_and_up[1], *down_, child("swiglu"));
}

}  // namespace mindspeed::models
