// SPDX-License-Identifier: Apache-2.0
// What a decoder layer computes again in backward instead of keeping. In units of one activation
// [T, hidden], with ffn = intermediate / hidden, a LLaMA layer keeps:
#pragma once

#include <string>

#include "export.h"

namespace mindspeed::models {

enum class Recomputation {
  kNone,       // 6 + 2 ffn: norms and SwiGLU are rebuilt, which repeats no matrix product
  kSelective,  // 6: the MLP runs again
  kFull,       // 1: the whole layer runs again
};

/// "none", "selective" or "full"; throws std::invalid_argument for another name.
MINDSPEED_API Recomputation recomputation_from_name(const std::string& name);
MINDSPEED_API const char* recomputation_name(Recomputation recomputation);

}  // namespace mindspeed::models
