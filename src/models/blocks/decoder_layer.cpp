// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/decoder_layer.h"

namespace mindspeed::models {

DecoderLayer::DecoderLayer(
    BuildContext& context, std::string path, const ModelSpec& spec, int64_t layer)
    : Block(std::move(path)) {
  // Registered in the order in which Hugging Face lists them.
  attention_ = register_module(
      "self_attn", std::make_shared<Attention>(context, child("self_attn"), spec, layer));
  mlp_ = register_module("mlp", std::make_shared<Mlp>(context, child("mlp"), spec));
  auto norm = [&](const char* name) {
    return register_module(
        name, std::make_shared<Norm>(context, child(name), spec.norm, spec.hidden_size));
  };
  attention_norm_ = norm("input_layernorm");
  mlp_norm_ = norm("post_attention_layernorm");
}

ResidualStream DecoderLayer::forward(ResidualStream stream, const ForwardContext& context) {
  at::Tensor normed = attention_norm_->forward(stream);
  stream.delta = attention_->forward(normed, context);
  normed = mlp_norm_->forward(stream);
  stream.delta = mlp_->forward(normed);
  return stream;
}

}  // namespace mindspeed::models
