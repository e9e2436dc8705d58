// SPDX-License-Identifier: Apache-2.0
// What one forward pass carries beside the activations: how tokens form sequences and documents,
// and positions.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "models/blocks/rotary.h"

namespace mindspeed::models {

/// Keys and values of earlier tokens, a pair a layer, each [B, past, K, D]; for generation.
struct KeyValueCache {
  std::vector<std::pair<at::Tensor, at::Tensor>> layers;
  int64_t length() const {
    return layers.empty() || !layers[0].first.defined() ? 0 : layers[0].first.size(1);
  }
};

struct ForwardContext {
  int64_t batch = 0;
  int64_t sequence = 0;
  std::optional<at::Tensor> positions;  // int32 [B*S]; none: the token's index in its sequence
  std::optional<at::Tensor>
      cu_seqlens;  // int32 [documents + 1] over the B*S tokens; none: one document a sequence
  RotaryTables rotary;
  KeyValueCache* cache = nullptr;
};

}  // namespace mindspeed::models
