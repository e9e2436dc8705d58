// SPDX-License-Identifier: Apache-2.0
#include "models/decoder.h"

namespace mindspeed::models {
namespace {

// Holds the layers so that their parameters are named "layers.<index>."; it has no forward of its
// own.
class LayerList : public torch::nn::Module {};

// Layers of one pipeline stage, [first, last): as even as can be, earlier stages take the rest.
std::pair<int64_t, int64_t> stage_layers(int64_t num_layers, parallel::MeshAxis pipeline) {
  TORCH_CHECK_VALUE(
      num_layers >= pipeline.size,
      "parallel.pipeline_parallel (",
      pipeline.size,
      ") must not exceed num_layers (",
      num_layers,
      ")");
  const int64_t each = num_layers / pipeline.size;
  const int64_t rest = num_layers % pipeline.size;
  const int64_t first = pipeline.rank * each + std::min(pipeline.rank, rest);
  return {first, first + each + (pipeline.rank < rest ? 1 : 0)};
}

}  // namespace

Decoder::Decoder(BuildContext& context, std::string path, const ModelSpec& spec)
    : Block(std::move(path)) {
  const parallel::MeshAxis pipeline = context.mesh.axis("pipeline");
  if (pipeline.rank == 0) {
    embedding_ = register_module(
        "embed_tokens",
        std::make_shared<Embedding>(
            context, child("embed_tokens"), spec.vocab_size, spec.hidden_size));
  }
  auto list = register_module("layers", std::make_shared<LayerList>());
  const auto [first, last] = stage_layers(spec.num_layers, pipeline);
  for (int64_t layer = first; layer < last; ++layer) {
    const std::string name = std::to_string(layer);
    layers_.push_back(list->register_module(
        name,
        std::make_shared<DecoderLayer>(context, child("layers." + name), spec, layer - first)));
  }
  if (pipeline.rank == pipeline.size - 1) {
    norm_ = register_module(
        "norm", std::make_shared<Norm>(context, child("norm"), spec.norm, spec.hidden_size));
  }
}

at::Tensor Decoder::forward(
    const at::Tensor& input_ids,
    const ForwardContext& context,
    at::ScalarType dtype,
    parallel::UnitBoundary* boundary) {
  ResidualStream stream{embedding_->forward(input_ids).to(dtype), at::Tensor()};
  for (size_t index = 0; index < layers_.size(); ++index) {
    const auto unit = static_cast<int64_t>(index);
    if (boundary != nullptr) stream = to_stream(boundary->enter(unit, to_tensors(stream)));
    stream = layers_[index]->forward(std::move(stream), context);
    if (boundary != nullptr) stream = to_stream(boundary->leave(unit, to_tensors(stream)));
  }
  return norm_->forward(stream);
}

at::Tensor Decoder::embedding_weight() const {
  return embedding_->weight();
}

}  // namespace mindspeed::models
