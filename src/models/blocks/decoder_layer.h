// SPDX-License-Identifier: Apache-2.0
// One pre-norm decoder layer: attention and MLP, each after a norm that also folds in the residual
// before it.
#pragma once

#include "models/blocks/attention.h"
#include "models/blocks/mlp.h"
#include "models/blocks/norm.h"
#include "models/recomputation.h"

namespace mindspeed::models {

class DecoderLayer : public Block {
 public:
  DecoderLayer(BuildContext& context, std::string path, const ModelSpec& spec, int64_t layer);

  ResidualStream forward(ResidualStream stream, const ForwardContext& context);

  void set_recomputation(Recomputation recomputation) { recomputation_ = recomputation; }
  Recomputation recomputation() const { return recomputation_; }

 private:
  ResidualStream run(ResidualStream stream, const ForwardContext& context);
  ResidualStream run_mlp(ResidualStream stream);

  std::shared_ptr<Norm> attention_norm_;
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<Norm> mlp_norm_;
  std::shared_ptr<Mlp> mlp_;
  Recomputation recomputation_ = Recomputation::kNone;
};

}  // namespace mindspeed::models
