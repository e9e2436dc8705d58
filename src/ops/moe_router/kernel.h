// SPDX-License-Identifier: Apache-2.0
// Choice of experts a token. Torch-free.
#pragma once

#include <cstdint>

#include "simd/element_type.h"

namespace mindspeed::ops {

struct MoeScoring {
  simd::ElementType type;  // of logits
  const void* logits;      // [tokens, num_experts]
  int64_t logits_stride;
  int64_t num_experts;
  int64_t top_k;
  bool sigmoid;  // else softmax
  bool renormalize;
  float scaling_factor;
};

struct MoeRouterForward {
  MoeScoring scoring;
  const float* correction_bias;  // [num_experts]; null: none
  int64_t num_groups;
  int64_t top_k_groups;
  int64_t* experts;  // [tokens, top_k]
  float* weights;    // [tokens, top_k]
};

struct MoeRouterBackward {
  MoeScoring scoring;
  const float* grad_weights;  // [tokens, top_k]
  const int64_t* experts;
  void* grad_logits;  // [tokens, num_experts]
};

// Added to the sum that weights are divided by, as DeepSeek-V3 does: no 0 / 0 where all underflow.
inline constexpr double kTinySum = 1e-20;

// Tokens [begin, end).
void moe_router_forward_rows(const MoeRouterForward& args, int64_t begin, int64_t end);
void moe_router_backward_rows(const MoeRouterBackward& args, int64_t begin, int64_t end);

}  // namespace mindspeed::ops
