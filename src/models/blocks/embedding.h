// SPDX-License-Identifier: Apache-2.0
// Token embedding; its rows (the vocabulary) may be cut along the tensor axis.
#pragma once

#include "models/blocks/block.h"

namespace mindspeed::models {

class Embedding : public Block {
 public:
  Embedding(BuildContext& context, std::string path, int64_t vocab_size, int64_t hidden_size);

  /// input_ids int64 [...] -> float32 [numel, hidden].
  at::Tensor forward(const at::Tensor& input_ids);

  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_;
};

}  // namespace mindspeed::models
