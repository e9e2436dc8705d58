// SPDX-License-Identifier: Apache-2.0
// The gated feed-forward block (SwiGLU, Shazeer 2020): down(silu(gate(x)) * up(x)).
#pragma once

#include "models/blocks/block.h"
#include "models/blocks/linear.h"
#include "models/blocks/norm.h"
#include "models/model_spec.h"

namespace mindspeed::models {

class Mlp : public Block {
 public:
  Mlp(BuildContext& context, std::string path, const ModelSpec& spec);

  /// The block's output [T, hidden] for the norm of `stream`, whose pending delta is folded in.
  at::Tensor forward(const Norm& norm, ResidualStream& stream);

 private:
  std::shared_ptr<Linear> gate_;
  std::shared_ptr<Linear> up_;
  std::shared_ptr<Linear> down_;
};

}  // namespace mindspeed::models
