// SPDX-License-Identifier: Apache-2.0
// Flash attention over sequences as plain pointers. A sequence is a row of the batch or a packed
// document. Letters: L length, H query heads, K key/value heads, D size of a query/key head, E size
// of a value head.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/element_type.h"

namespace mindspeed::ops {

/// A [tokens, heads, size] array with unit last stride; strides in elements.
struct HeadArray {
  const void* data = nullptr;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
};

/// One sequence: where its tokens start in the query and key arrays, how many there are. `first_*`
/// also number the tokens for dropout, so a mask does not depend on tiling or threads.
struct AttentionSequence {
  int64_t query_offset;  // elements from HeadArray::data (batch stride folded in)
  int64_t key_offset;
  int64_t value_offset;
  int64_t first_query;  // token index in the flattened batch
  int64_t first_key;
  int64_t query_length;
  int64_t key_length;
};

struct AttentionShape {
  simd::ElementType type;
  int64_t num_heads;
  int64_t num_key_value_heads;
  int64_t head_size;
  int64_t value_size;
  bool causal;  // query i sees keys j <= i + key_length - query_length
  float scale;
  float dropout;
  uint64_t seed;
};

struct AttentionForward {
  AttentionShape shape;
  HeadArray query;
  HeadArray key;
  HeadArray value;
  void* out;   // [tokens, H, E] contiguous
  float* lse;  // log-sum-exp of (first_query + i, head h) at lse[...]; strides below
  int64_t lse_token_stride;
  int64_t lse_head_stride;
};

struct AttentionBackward {
  AttentionShape shape;
  HeadArray query;
  HeadArray key;
  HeadArray value;
  HeadArray out;       // contiguous [tokens, H, E]
  HeadArray grad_out;  // [tokens, H, E]
  const float* lse;
  int64_t lse_token_stride;
  int64_t lse_head_stride;
  void* grad_query;  // [tokens, H, D] contiguous
  void* grad_key;    // [key tokens, K, D] contiguous
  void* grad_value;  // [key tokens, K, E] contiguous
};

/// Offsets into lse and the contiguous arrays of a sequence.
struct SequencePlace {
  int64_t lse_offset;
  int64_t grad_out_offset;  // elements into grad_out
};

/// Floats that attention_pack needs for one key/value head of a sequence with `key_length` keys.
size_t attention_packed_size(const AttentionShape& shape, int64_t key_length);

/// Arranges keys and values of one head for attention_forward; `packed` is 64-byte aligned.
void attention_pack(
    const AttentionForward& args,
    const AttentionSequence& sequence,
    int64_t key_value_head,
    float* packed);

/// Query rows of one block (attention_query_block() rows each) of one query head.
void attention_forward(
    const AttentionForward& args,
    const AttentionSequence& sequence,
    const SequencePlace& place,
    int64_t head,
    int64_t block,
    const float* packed);

/// All gradients of one key/value head and the query heads that share it.
void attention_backward(
    const AttentionBackward& args,
    const AttentionSequence& sequence,
    const SequencePlace& place,
    int64_t key_value_head);

inline constexpr int64_t kAttentionQueryBlock = 96;  // a multiple of the micro-kernel's 6 rows
inline constexpr int64_t kAttentionKeyBlock = 128;

}  // namespace mindspeed::ops
