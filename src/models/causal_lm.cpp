// SPDX-License-Identifier: Apache-2.0
#include "models/causal_lm.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>

#include "models/activation_observer.h"
#include "models/initialisation.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"

namespace mindspeed::models {
namespace {

void check_batch(const MicroBatch& batch, const parallel::Mesh& mesh) {
  for (const char* axis : {"tensor", "pipeline"}) {
    TORCH_CHECK_VALUE(
        mesh.axis(axis).size == 1,
        "parallel.",
        axis,
        "_parallel (",
        mesh.axis(axis).size,
        ") must be 1 to run the model in this version; a model cut along this axis can be built "
        "and inspected only");
  }
  TORCH_CHECK_VALUE(
      batch.input_ids.dim() == 2 && batch.input_ids.scalar_type() == at::kLong,
      "input_ids must be int64 of shape [batch, sequence], got ",
      batch.input_ids.scalar_type(),
      " ",
      batch.input_ids.sizes());
  TORCH_CHECK_VALUE(
      !batch.labels.defined() || batch.labels.sizes() == batch.input_ids.sizes(),
      "labels must have the shape of input_ids ",
      batch.input_ids.sizes(),
      ", got ",
      batch.labels.sizes());
  const int64_t tokens = batch.input_ids.numel();
  TORCH_CHECK_VALUE(
      !batch.positions ||
          (batch.positions->numel() == tokens && batch.positions->scalar_type() == at::kInt),
      "positions must be int32 with one value a token (",
      tokens,
      ")");
  TORCH_CHECK_VALUE(
      !batch.cu_seqlens || batch.cu_seqlens->dim() == 1, "cu_seqlens must have one dim");
}

// Rows that the rotary tables need: one more than the largest position.
int64_t table_length(const MicroBatch& batch, int64_t past) {
  const int64_t sequence = batch.input_ids.size(1) + past;
  if (!batch.positions || batch.positions->numel() == 0 || batch.positions->is_meta())
    return sequence;
  return std::max<int64_t>(batch.positions->max().item<int>() + 1, 1);
}

}  // namespace

CausalLM::CausalLM(const ModelSpec& spec, at::Device device, parallel::Mesh mesh, uint64_t seed)
    : Block(""),
      spec_(spec),
      mesh_(mesh),
      rotary_(spec.rotary, spec.attention.head_size, spec.max_position_embeddings) {
  spec_.check();
  BuildContext context{at::TensorOptions().dtype(at::kFloat).device(device), mesh, {}};
  decoder_ = register_module("model", std::make_shared<Decoder>(context, "model", spec));
  const parallel::MeshAxis pipeline = mesh.axis("pipeline");
  const bool last_stage = pipeline.rank == pipeline.size - 1;
  TORCH_CHECK_VALUE(
      !spec.tie_word_embeddings || pipeline.size == 1,
      "model.tie_word_embeddings must be false with parallel.pipeline_parallel (",
      pipeline.size,
      ")");
  if (last_stage && !spec.tie_word_embeddings) {
    output_ = register_module(
        "lm_head",
        std::make_shared<Linear>(
            context, "lm_head", spec.hidden_size, spec.vocab_size, false, LinearSplit::kOutputs));
  }
  owners_ = std::move(context.owners);
  if (device.type() != at::kMeta) initialise(seed);
}

void CausalLM::initialise(uint64_t seed) {
  at::NoGradGuard no_grad;
  for (auto& item : named_parameters()) {
    const parallel::ParameterOwner& owner = owners_.at(item.key());
    at::Tensor parameter = item.value();
    if (owner.global_shape.size() == 1) {
      const bool is_bias = item.key().ends_with("bias");
      parameter.fill_(is_bias ? 0 : 1);
      continue;
    }
    at::Tensor values = parameter.device().is_cpu() ? parameter : parameter.cpu();
    fill_normal(values, owner, mesh_, item.key(), seed, spec_.initializer_range);
    if (!parameter.device().is_cpu()) parameter.copy_(values);
  }
}

at::Tensor CausalLM::output_weight() const {
  return spec_.tie_word_embeddings ? decoder_->embedding_weight() : output_->weight();
}

ForwardContext CausalLM::forward_context(const MicroBatch& batch, KeyValueCache* cache) {
  ForwardContext context;
  context.batch = batch.input_ids.size(0);
  context.sequence = batch.input_ids.size(1);
  context.positions = batch.positions;
  context.cu_seqlens = batch.cu_seqlens;
  context.cache = cache;
  const int64_t past = cache == nullptr ? 0 : cache->length();
  context.rotary = rotary_.tables(table_length(batch, past), batch.input_ids.device());
  return context;
}

at::Tensor CausalLM::hidden(const MicroBatch& batch, KeyValueCache* cache) {
  check_batch(batch, mesh_);
  if (boundary_) boundary_->begin();
  const ForwardContext context = forward_context(batch, cache);
  return decoder_->forward(batch.input_ids, context, compute_dtype_, boundary_.get());
}

at::Tensor CausalLM::logits_of_hidden(const at::Tensor& hidden_TN) {
  at::Tensor logits_TV = at::linear(hidden_TN, output_weight().to(compute_dtype_));
  observe_activation("lm_head", logits_TV);
  return logits_TV;
}

LossOutput CausalLM::loss_of_hidden(
    const at::Tensor& hidden_TN, const at::Tensor& labels, double z_loss) {
  ops::CrossEntropySettings settings;
  settings.z_loss = z_loss;
  auto [loss_sum, num_valid, num_correct] = ops::linear_cross_entropy(
      hidden_TN, output_weight().to(compute_dtype_), labels.reshape({-1}), settings);
  observe_activation("lm_head.cross_entropy", loss_sum);
  return {loss_sum, num_valid};
}

LossOutput CausalLM::loss(const MicroBatch& batch, double z_loss) {
  TORCH_CHECK_VALUE(batch.labels.defined(), "labels are needed for the loss");
  return loss_of_hidden(hidden(batch), batch.labels, z_loss);
}

}  // namespace mindspeed::models
