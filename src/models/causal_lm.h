// SPDX-License-Identifier: Apache-2.0
// A decoder-only language model built from a ModelSpec: logits for inference, a loss that never
// holds all logits for training. Parameters carry Hugging Face's LLaMA names.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "export.h"
#include "models/blocks/linear.h"
#include "models/decoder.h"
#include "models/model_spec.h"

namespace mindspeed::models {

/// One micro batch. `labels[t]` is the token that position t must predict; -100 is not counted.
struct MicroBatch {
  at::Tensor input_ids;                  // int64 [B, S]
  at::Tensor labels;                     // int64 [B, S]; may be undefined for inference
  std::optional<at::Tensor> positions;   // int32 [B*S]
  std::optional<at::Tensor> cu_seqlens;  // int32 [documents + 1] over the B*S tokens
};

struct LossOutput {
  at::Tensor loss_sum;   // float32 scalar, over valid tokens
  at::Tensor num_valid;  // int64 scalar
};

class MINDSPEED_API CausalLM : public Block {
 public:
  /// Builds this rank's part of the model on `device` in float32. Weights are normal(0,
  /// initializer_range), norms 1, biases 0, the same for every mesh; on the meta device nothing is
  /// filled.
  CausalLM(const ModelSpec& spec, at::Device device, parallel::Mesh mesh, uint64_t seed);

  /// How the batch's tokens form sequences and documents, with rotary tables long enough for them.
  ForwardContext forward_context(const MicroBatch& batch, KeyValueCache* cache = nullptr);

  /// Hidden states after the final norm, [B*S, hidden] in the compute dtype.
  at::Tensor hidden(const MicroBatch& batch, KeyValueCache* cache = nullptr);

  /// Logits [T, vocab] of hidden states [T, hidden], in the compute dtype.
  at::Tensor logits_of_hidden(const at::Tensor& hidden_TN);

  /// Sum of cross-entropies (plus z_loss * log_sum_exp^2 a token) over the valid tokens of `labels`
  /// (int64, one a row of hidden_TN), and their number.
  LossOutput loss_of_hidden(
      const at::Tensor& hidden_TN, const at::Tensor& labels, double z_loss = 0.0);

  /// hidden() then loss_of_hidden().
  LossOutput loss(const MicroBatch& batch, double z_loss = 0.0);

  const ModelSpec& spec() const { return spec_; }
  const std::map<std::string, parallel::ParameterOwner>& owners() const { return owners_; }
  const parallel::Mesh& mesh() const { return mesh_; }
  const Decoder& decoder() const { return *decoder_; }

  /// Dtype of activations and of the weights as the GEMMs see them; parameters stay float32.
  void set_compute_dtype(at::ScalarType dtype) { compute_dtype_ = dtype; }
  at::ScalarType compute_dtype() const { return compute_dtype_; }

  /// Installs (or with null removes) the listener at layer boundaries.
  void set_unit_boundary(std::shared_ptr<parallel::UnitBoundary> boundary) {
    boundary_ = std::move(boundary);
  }

 private:
  void initialise(uint64_t seed);
  at::Tensor output_weight() const;

  ModelSpec spec_;
  parallel::Mesh mesh_;
  std::map<std::string, parallel::ParameterOwner> owners_;
  std::shared_ptr<Decoder> decoder_;
  std::shared_ptr<Linear> output_;  // absent when tied, or not on the last pipeline stage
  RotaryTableCache rotary_;
  at::ScalarType compute_dtype_ = at::kFloat;
  std::shared_ptr<parallel::UnitBoundary> boundary_;
};

}  // namespace mindspeed::models
