// SPDX-License-Identifier: Apache-2.0
// Grouped-query causal self-attention (Ainslie et al. 2023) with rotary positions over the flash
// attention operator.
#pragma once

#include "models/blocks/block.h"
#include "models/blocks/forward_context.h"
#include "models/blocks/linear.h"
#include "models/blocks/norm.h"
#include "models/model_spec.h"

namespace mindspeed::models {

class Attention : public Block {
 public:
  Attention(BuildContext& context, std::string path, const ModelSpec& spec, int64_t layer);

  /// The block's output [B*S, hidden] for the norm of `stream`, whose pending delta is folded in.
  at::Tensor forward(const Norm& norm, ResidualStream& stream, const ForwardContext& context);

 private:
  int64_t layer_;
  int64_t head_size_;
  std::shared_ptr<Linear> query_;
  std::shared_ptr<Linear> key_;
  std::shared_ptr<Linear> value_;
  std::shared_ptr<Linear> output_;
};

}  // namespace mindspeed::models
