// SPDX-License-Identifier: Apache-2.0
// ModelSpec: everything that decides a decoder's shape and arithmetic, and nothing about ranks or
// devices. A family (configs/families/*.yaml) maps a Hugging Face config.json to it; the blocks are
// built from it.
#pragma once

#include <cstdint>
#include <string>

#include "export.h"

namespace mindspeed::models {

/// Rotary position embedding and its scaling rules (names as in Hugging Face's rope_parameters).
struct RotarySpec {
  double theta = 10000.0;
  std::string scaling = "default";  // default | linear | dynamic | llama3
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 8192;
};

struct AttentionSpec {
  std::string kind = "grouped_query";
  int64_t num_heads = 32;
  int64_t num_key_value_heads = 32;
  int64_t head_size = 128;
  bool bias = false;
};

struct MlpSpec {
  std::string kind = "gated";
  std::string activation = "silu";
  int64_t intermediate_size = 11008;
  bool bias = false;
};

struct NormSpec {
  std::string kind = "rms_norm";
  double eps = 1e-6;
};

struct ModelSpec {
  std::string family = "llama";
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t num_layers = 32;
  int64_t max_position_embeddings = 2048;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  AttentionSpec attention;
  MlpSpec mlp;
  NormSpec norm;
  RotarySpec rotary;

  /// Parses JSON whose keys are the field names above (nested objects for attention, mlp, norm,
  /// rotary). Throws std::invalid_argument for an unknown key, a wrong type, or a spec that check()
  /// refuses.
  MINDSPEED_API static ModelSpec from_json(const std::string& json);
  MINDSPEED_API std::string to_json() const;

  /// Throws std::invalid_argument naming the field, its value and the rule it breaks.
  MINDSPEED_API void check() const;
};

}  // namespace mindspeed::models
