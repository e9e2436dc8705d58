// SPDX-License-Identifier: Apache-2.0
#include "ops/flash_attention/sequences.h"

#include <c10/util/Exception.h>

namespace mindspeed::ops {
namespace {

std::vector<int64_t> read_bounds(const char* name, const at::Tensor& cu_seqlens, int64_t tokens) {
  const at::Tensor host = cu_seqlens.cpu().contiguous();
  const int32_t* data = host.const_data_ptr<int32_t>();
  std::vector<int64_t> bounds(data, data + host.numel());
  TORCH_CHECK_VALUE(
      bounds.front() == 0 && bounds.back() == tokens,
      "flash_attention: ",
      name,
      " must run from 0 to the number of tokens (",
      tokens,
      "), got ",
      bounds.front(),
      " to ",
      bounds.back());
  for (size_t i = 1; i < bounds.size(); ++i) {
    TORCH_CHECK_VALUE(
        bounds[i] >= bounds[i - 1],
        "flash_attention: ",
        name,
        " must not fall, got ",
        bounds[i - 1],
        " then ",
        bounds[i],
        " at ",
        i);
  }
  return bounds;
}

}  // namespace

std::vector<SequenceRange> attention_sequences(
    const at::Tensor& q, const at::Tensor& k, const AttentionSettings& settings) {
  std::vector<SequenceRange> sequences;
  if (!settings.packed()) {
    for (int64_t b = 0; b < q.size(0); ++b) {
      sequences.push_back({b * q.size(1), (b + 1) * q.size(1), b * k.size(1), (b + 1) * k.size(1)});
    }
    return sequences;
  }
  const auto query_bounds = read_bounds("cu_seqlens_q", *settings.cu_seqlens_q, q.size(0));
  const auto key_bounds = read_bounds("cu_seqlens_k", *settings.cu_seqlens_k, k.size(0));
  for (size_t i = 0; i + 1 < query_bounds.size(); ++i) {
    sequences.push_back({query_bounds[i], query_bounds[i + 1], key_bounds[i], key_bounds[i + 1]});
  }
  return sequences;
}

}  // namespace mindspeed::ops
