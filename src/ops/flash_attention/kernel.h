// SPDX-License-Identifier: Apache-2.0
// Flash attention over sequences as plain pointers. A sequence is a row of the batch or a packed
// document. Letters: L length, H query heads, K key/value heads, D size of a query/key head, E size
// of a value head.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/flash_attention/visibility.h"
#include "ops/flash_attention/workspace.h"
#include "simd/element_type.h"

namespace mindspeed::ops {

/// A [tokens, heads, size] array with unit last stride; strides in elements.
struct HeadArray {
  const void* data = nullptr;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
};

/// A float32 number a head and token.
struct HeadScalars {
  const float* data = nullptr;  // null: all zero
  int64_t token_stride = 0;
  int64_t head_stride = 0;
};

/// One sequence: where its tokens start in each array (elements, batch stride folded in), how many
/// there are. `first_*` also number the tokens for dropout, so a mask does not depend on tiling or
/// threads.
struct AttentionSequence {
  int64_t query_offset;
  int64_t key_offset;
  int64_t value_offset;
  int64_t grad_out_offset;
  int64_t lse_offset;   // of log-sum-exp and its gradient
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
  int64_t window_left;   // keys that a query sees before its place, negative: all
  int64_t window_right;  // and after; causal is 0
  float scale;
  float softcap;  // 0: none
  float dropout;
  uint64_t seed;
  const float* alibi_slopes;  // [H], null: none
  const float* sinks;         // [H], null: none

  Visibility visibility(const AttentionSequence& sequence) const {
    return {sequence.query_length, sequence.key_length, window_left, window_right};
  }
};

struct AttentionForward {
  AttentionShape shape;
  HeadArray query;
  HeadArray key;
  HeadArray value;
  void* out;   // [tokens, H, E] contiguous
  float* lse;  // log-sum-exp of a sequence's query i and head h at lse[lse_offset + ...]
  int64_t lse_token_stride;
  int64_t lse_head_stride;
};

struct AttentionBackward {
  AttentionShape shape;
  HeadArray query;
  HeadArray key;
  HeadArray value;
  HeadArray out;  // contiguous [tokens, H, E]
  HeadArray grad_out;
  HeadScalars lse;
  HeadScalars grad_lse;  // strides of lse
  void* grad_query;      // [tokens, H, D] contiguous
  void* grad_key;        // [key tokens, K, D] contiguous
  void* grad_value;      // [key tokens, K, E] contiguous
};

/// Floats that attention_pack needs for one key/value head of a sequence with `key_length` keys.
size_t attention_packed_size(const AttentionShape& shape, int64_t key_length);

/// Arranges keys and values of one head for attention_forward; `packed` is 64-byte aligned.
void attention_pack(
    const AttentionForward& args,
    const AttentionSequence& sequence,
    int64_t key_value_head,
    float* packed,
    Workspace& workspace);

/// Queries of one block (kAttentionQueryBlock each) of one query head.
void attention_forward(
    const AttentionForward& args,
    const AttentionSequence& sequence,
    int64_t head,
    int64_t block,
    const float* packed,
    Workspace& workspace);

/// Floats of the gradient of one query head's queries with respect to some keys alone.
size_t attention_partial_size(const AttentionShape& shape, int64_t queries);

/// The gradients of keys and values `keys` of one key/value head, from all query heads that share
/// it; and what these keys give to the gradients of the queries that see them (Visibility::
/// queries_of), to be added up by attention_sum_grad_query: one attention_partial_size a query head
/// in `grad_query`.
void attention_backward(
    const AttentionBackward& args,
    const AttentionSequence& sequence,
    int64_t key_value_head,
    TokenRange keys,
    float* grad_query,
    Workspace& workspace);

/// What one range of keys gives to the gradient of `queries`.
struct PartialGradQuery {
  TokenRange queries;
  const float* data;  // one attention_partial_size a query head of the group
};

/// Adds the parts in their order and writes the gradient of the query heads of a key/value head.
void attention_sum_grad_query(
    const AttentionBackward& args,
    const AttentionSequence& sequence,
    int64_t key_value_head,
    const PartialGradQuery* parts,
    size_t num_parts,
    Workspace& workspace);

inline constexpr int64_t kAttentionQueryBlock = 96;  // a multiple of the micro-kernel's 6 rows
inline constexpr int64_t kAttentionKeyBlock = 128;

}  // namespace mindspeed::ops
