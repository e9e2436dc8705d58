// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/embedding.h"

#include <ATen/ops/embedding.h>

#include "models/activation_observer.h"

namespace mindspeed::models {

Embedding::Embedding(
    BuildContext& context, std::string path, int64_t vocab_size, int64_t hidden_size)
    : Block(std::move(path)),
      weight_(declare(context, "weight", {{vocab_size, hidden_size}, "tensor", 0})) {}

at::Tensor Embedding::forward(const at::Tensor& input_ids) {
  at::Tensor embedded = at::embedding(weight_, input_ids.reshape({-1}));
  observe_activation(path(), embedded);
  return embedded;
}

}  // namespace mindspeed::models
