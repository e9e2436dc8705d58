// SPDX-License-Identifier: Apache-2.0
// The sequences of an attention call, from the batch dim or from cumulative lengths.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ops/flash_attention/attention_settings.h"

namespace mindspeed::ops {

/// Tokens [query_begin, query_end) of the flattened queries attend to [key_begin, key_end) of the
/// flattened keys.
struct SequenceRange {
  int64_t query_begin;
  int64_t query_end;
  int64_t key_begin;
  int64_t key_end;
};

/// Throws ValueError if cumulative lengths do not start at 0, fall, or do not end at the number of
/// tokens.
std::vector<SequenceRange> attention_sequences(
    const at::Tensor& q, const at::Tensor& k, const AttentionSettings& settings);

}  // namespace mindspeed::ops
