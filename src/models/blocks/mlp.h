// SPDX-License-Identifier: Apache-2.0
// The gated feed-forward block (SwiGLU, Shazeer 2020): down(silu(gate(x)) * up(x)).
#pragma once

#include "models/blocks/block.h"
#include "models/blocks/linear.h"
#include "models/model_spec.h"

namespace mindspeed::models {

class Mlp : public Block {
 public:
  Mlp(BuildContext& context, std::string path, const ModelSpec& spec);

  /// x_TN [T, hidden] -> [T, hidden].
  at::Tensor forward(const at::Tensor& x_TN);

 private:
  std::shared_ptr<Linear> gate_;
  std::shared_ptr<Linear> up_;
  std::shared_ptr<Linear> down_;
};

}  // namespace mindspeed::models
