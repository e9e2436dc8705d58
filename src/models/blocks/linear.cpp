// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/linear.h"

#include <ATen/ops/linear.h>

#include "models/activation_observer.h"

namespace mindspeed::models {

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
  std::optional<at::Tensor> bias;
  if (bias_.defined()) bias = bias_.to(x.scalar_type());
  at::Tensor y = at::linear(x, weight_.to(x.scalar_type()), bias);
  observe_activation(path(), y);
  return y;
}

}  // namespace mindspeed::models
