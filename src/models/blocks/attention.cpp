// SPDX-License-Identifier: Apache-2.0
// Shape letters: B batch, S sequence, T = B*S tokens, H query heads, K key/value heads, D head
// size, N hidden.
#include "models/blocks/attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include "models/activation_observer.h"
#include "models/blocks/norm_linears.h"
#include "ops/flash_attention/flash_attention.h"
#include "ops/rotary_embedding/rotary_embedding.h"

namespace mindspeed::models {
namespace {

// Appends this step's keys and values to the layer's cache and returns all of them.
std::pair<at::Tensor, at::Tensor> extend_cache(
    KeyValueCache& cache, int64_t layer, const at::Tensor& key, const at::Tensor& value) {
  auto& [past_key, past_value] = cache.layers.at(layer);
  past_key = past_key.defined() ? at::cat({past_key, key}, 1) : key;
  past_value = past_value.defined() ? at::cat({past_value, value}, 1) : value;
  return {past_key, past_value};
}

}  // namespace

Attention::Attention(BuildContext& context, std::string path, const ModelSpec& spec, int64_t layer)
    : Block(std::move(path)), layer_(layer), head_size_(spec.attention.head_size) {
  const AttentionSpec& attention = spec.attention;
  auto linear = [&](const char* name, int64_t inputs, int64_t outputs, LinearSplit split) {
    return register_module(
        name,
        std::make_shared<Linear>(context, child(name), inputs, outputs, attention.bias, split));
  };
  const int64_t query_size = attention.num_heads * head_size_;
  const int64_t key_value_size = attention.num_key_value_heads * head_size_;
  const int64_t tensor_size = context.mesh.axis("tensor").size;
  TORCH_CHECK_VALUE(
      attention.num_key_value_heads % tensor_size == 0,
      "parallel.tensor_parallel (",
      tensor_size,
      ") must divide num_key_value_heads (",
      attention.num_key_value_heads,
      ")");
  query_ = linear("q_proj", spec.hidden_size, query_size, LinearSplit::kOutputs);
  key_ = linear("k_proj", spec.hidden_size, key_value_size, LinearSplit::kOutputs);
  value_ = linear("v_proj", spec.hidden_size, key_value_size, LinearSplit::kOutputs);
  output_ = linear("o_proj", query_size, spec.hidden_size, LinearSplit::kInputs);
}

at::Tensor Attention::forward(
    const Norm& norm, ResidualStream& stream, const ForwardContext& context) {
  const std::vector<at::Tensor> projected =
      norm_linears(norm, {query_.get(), key_.get(), value_.get()}, stream);
  const int64_t tokens = stream.sum.size(0);
  auto heads = [&](const at::Tensor& x) {
    return context.cu_seqlens ? x.view({tokens, -1, head_size_})
                              : x.view({context.batch, context.sequence, -1, head_size_});
  };
  const RotaryTables& tables = context.rotary;
  auto rotate = [&](const at::Tensor& x) {
    at::Tensor rotated = ops::rotary_embedding(x, tables.cos, tables.sin, context.positions, false);
    observe_activation(child("rotary"), rotated);
    return rotated;
  };
  at::Tensor query = rotate(heads(projected[0]));
  at::Tensor key = rotate(heads(projected[1]));
  at::Tensor value = heads(projected[2]);
  if (context.cache != nullptr) {
    std::tie(key, value) = extend_cache(*context.cache, layer_, key, value);
  }
  auto attended = std::get<0>(ops::flash_attention(
      query, key, value, context.cu_seqlens, context.cu_seqlens, /*causal=*/true));
  observe_activation(child("flash_attention"), attended);
  return output_->forward(attended.reshape({tokens, -1}));
}

}  // namespace mindspeed::models
