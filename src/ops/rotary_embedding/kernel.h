// SPDX-License-Identifier: Apache-2.0
// Rotation of head vectors by their token's angles. Torch-free. Strides count elements.
#pragma once

#include <cstdint>

#include "simd/element_type.h"

namespace mindspeed::ops {

struct RotaryEmbedding {
  simd::ElementType type;  // of x, out
  const void* x;           // [batch, sequence, head, size], unit last stride
  int64_t batch_stride;
  int64_t token_stride;
  int64_t head_stride;
  int64_t sequence;
  int64_t num_heads;
  int64_t size;
  const float* cos;  // [positions, num_pairs]
  const float* sin;
  const int32_t* positions;  // row of the table, one a token; null: the place in the sequence
  int64_t num_pairs;         // rotated pairs; the elements past 2 num_pairs are copied
  bool interleaved;          // pairs (2i, 2i+1) instead of (i, i + num_pairs)
  bool inverse;              // rotate back: the gradient's way
  void* out;                 // of x's shape, unit last stride; may be x itself
  int64_t out_batch_stride;
  int64_t out_token_stride;
  int64_t out_head_stride;
};

// Tokens [begin, end) of batch * sequence.
void rotary_embedding_tokens(const RotaryEmbedding& args, int64_t begin, int64_t end);

}  // namespace mindspeed::ops
