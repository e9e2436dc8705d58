// SPDX-License-Identifier: Apache-2.0
// Tables of cosines and sines for rotary position embedding (Su et al. 2021), with the scaling
// rules that published checkpoints use. Same float32 arithmetic as Hugging Face, so that logits
// agree.
#pragma once

#include <ATen/core/Tensor.h>

#include "export.h"
#include "models/model_spec.h"

namespace mindspeed::models {

/// cos and sin, each float32 [num_positions, head_size / 2].
struct RotaryTables {
  at::Tensor cos;
  at::Tensor sin;
};

/// Inverse frequencies float32 [head_size / 2] for sequences of `length` tokens (only "dynamic"
/// depends on it).
MINDSPEED_API at::Tensor rotary_frequencies(
    const RotarySpec& spec, int64_t head_size, int64_t max_position_embeddings, int64_t length);

/// Keeps the tables of the longest sequence so far; "dynamic" scaling rebuilds them when the length
/// matters.
class RotaryTableCache {
 public:
  RotaryTableCache(RotarySpec spec, int64_t head_size, int64_t max_position_embeddings);

  /// Tables with at least `length` rows on `device`.
  const RotaryTables& tables(int64_t length, at::Device device);

 private:
  RotarySpec spec_;
  int64_t head_size_;
  int64_t max_position_embeddings_;
  int64_t scaled_length_ = 0;
  RotaryTables tables_;
};

}  // namespace mindspeed::models
