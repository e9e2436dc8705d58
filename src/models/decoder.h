// SPDX-License-Identifier: Apache-2.0
// The stack of decoder layers between token embedding and final norm; with pipeline stages, this
// stage's part of it.
#pragma once

#include <memory>
#include <vector>

#include "models/blocks/decoder_layer.h"
#include "models/blocks/embedding.h"
#include "parallel/unit_boundary.h"

namespace mindspeed::models {

class Decoder : public Block {
 public:
  Decoder(BuildContext& context, std::string path, const ModelSpec& spec);

  /// input_ids int64 [B, S] -> normalised hidden states [B*S, hidden] in `dtype`. `boundary` may be
  /// null; it sees every layer as a unit, numbered from 0 within this stage.
  at::Tensor forward(
      const at::Tensor& input_ids,
      const ForwardContext& context,
      at::ScalarType dtype,
      parallel::UnitBoundary* boundary);

  /// The weight [vocab, hidden] of the token embedding, for a tied output layer.
  at::Tensor embedding_weight() const;

  const std::vector<std::shared_ptr<DecoderLayer>>& layers() const { return layers_; }

 private:
  std::shared_ptr<Embedding> embedding_;  // first pipeline stage only
  std::vector<std::shared_ptr<DecoderLayer>> layers_;
  std::shared_ptr<Norm> norm_;  // last pipeline stage only
};

}  // namespace mindspeed::models
