// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/decoder_layer.h"

#include "memory/recompute.h"
#include "models/activation_observer.h"

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
  if (recomputation_ != Recomputation::kFull) return run(std::move(stream), context);
  // One tensor to keep instead of two. The context is copied: backward comes after its end.
  if (stream.delta.defined()) stream = {stream.sum + stream.delta, at::Tensor()};
  observe_activation(child("residual"), stream.sum);
  return to_stream(memory::recompute(
      [this, context](const std::vector<at::Tensor>& inputs) {
        return to_tensors(run(to_stream(inputs), context));
      },
      to_tensors(stream)));
}

ResidualStream DecoderLayer::run(ResidualStream stream, const ForwardContext& context) {
  stream.delta = attention_->forward(*attention_norm_, stream, context);
  if (recomputation_ != Recomputation::kSelective) return run_mlp(std::move(stream));
  return to_stream(memory::recompute(
      [this](const std::vector<at::Tensor>& inputs) {
        return to_tensors(run_mlp(to_stream(inputs)));
      },
      to_tensors(stream)));
}

ResidualStream DecoderLayer::run_mlp(ResidualStream stream) {
  stream.delta = mlp_->forward(*mlp_norm_, stream);
  return stream;
}

}  // namespace mindspeed::models
