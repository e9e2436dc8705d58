// SPDX-License-Identifier: Apache-2.0
// One training step: micro batches -> loss and gradients of the global mean -> reduction -> norm
// and clipping -> optimizer. Works alone or over a data parallel c10d::ProcessGroup that it is
// handed; needs no Python.
//
// Normalisation (the one rule): loss = sum(loss of valid tokens) / (number of valid tokens in the
// global batch). Each micro batch back-propagates its own sum divided by that number, so
// accumulation and ranks simply add.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "export.h"
#include "models/causal_lm.h"
#include "parallel/data_parallel.h"
#include "train/adamw.h"
#include "train/loss_scaler.h"
#include "train/recompute_planner.h"

namespace mindspeed::train {

/// What leaves memory while it is not needed (train/activation_swap.h, memory/swapped_state.h).
struct SwapSettings {
  bool activations = false;
  bool optimizer = false;
  std::string folder;
};

struct StepSettings {
  at::ScalarType compute_dtype = at::kFloat;
  double clip_norm = 1.0;  // global norm; 0 turns clipping off
  double z_loss = 0.0;
  int64_t bucket_bytes = 25 << 20;
  bool fully_sharded = false;
  std::vector<models::Recomputation> recomputation;  // one a layer; empty: none
  SwapSettings swap;
  std::optional<OptimizerSettings> optimizer;  // none: the caller updates the parameters

  /// Parses the JSON form (keys: precision, clip_norm, z_loss, bucket_bytes, fsdp,
  /// recompute [a name a layer], swap {activations, optimizer, folder}, optimizer
  /// {betas, eps, weight_decay}). Throws std::invalid_argument for unknown keys and values.
  MINDSPEED_API static StepSettings from_json(const std::string& json);
};

/// What a step did. Times are seconds of wall clock on this rank.
struct StepStats {
  double loss = 0;           // mean over the valid tokens of the global batch
  int64_t valid_tokens = 0;  // in the global batch
  double grad_norm = 0;      // before clipping, of the global gradient
  bool finite = true;  // false: loss or gradients are not finite and the update must be skipped
  double loss_scale = 1;
  double forward_s = 0;
  double backward_s = 0;
  double reduce_wait_s = 0;  // gradient reduction that backward did not hide
  double clip_s = 0;
};

class MINDSPEED_API StepEngine {
 public:
  /// `group` may be null (one process). All ranks must hold the same parameters (equal seeds give
  /// equal weights); the constructor compares them and throws std::invalid_argument otherwise.
  StepEngine(
      std::shared_ptr<models::CausalLM> model,
      StepSettings settings,
      c10::intrusive_ptr<c10d::ProcessGroup> group);

  /// The leaf tensors that an optimizer updates, by name: parameters, or this rank's shards under
  /// full sharding.
  parallel::NamedTensors parameters() const;

  /// Leaves the reduced, unscaled, clipped gradient of the global mean loss in each parameter's
  /// .grad. (With our own optimizer the clipping factor is applied in the update's pass instead, so
  /// .grad is not clipped.) Throws std::invalid_argument if the global batch holds no valid token.
  StepStats forward_backward(const std::vector<models::MicroBatch>& micro_batches);

  /// Our fused AdamW with learning rate `learning_rate`; a no-op after a step that was not finite.
  void optimizer_step(double learning_rate);

  void zero_gradients();

  /// What each layer computes again in backward from now on, one entry a layer. Throws
  /// std::invalid_argument for another number of entries.
  void set_recomputation(const std::vector<models::Recomputation>& by_layer);

  /// Chooses and installs the recomputation of least time with which a step on batches like these
  /// stays under `budget_bytes` of this process's memory (the largest of all ranks), by measuring
  /// layers and trial steps; leaves parameters, optimizer and loss scale as they were and gradients
  /// zero. Collective. Needs the buffer pool and /proc, and parameters that are not sharded
  /// (ValueError).
  RecomputePlan plan_recomputation(
      const std::vector<models::MicroBatch>& micro_batches, int64_t budget_bytes);

  /// exp_avg.<name> and exp_avg_sq.<name>, shaped as parameters().
  std::map<std::string, at::Tensor> optimizer_state() const;
  void load_optimizer_state(const std::map<std::string, at::Tensor>& state);

  /// Loss scaler and update count, as JSON.
  std::string state_json() const;
  void load_state_json(const std::string& json);

  /// Replays the micro batches on this rank and names the first layer and operator whose output
  /// (or, failing that, gradient) is not finite; empty when all are finite here.
  std::string find_non_finite(const std::vector<models::MicroBatch>& micro_batches);

  models::CausalLM& model() { return *model_; }

 private:
  int64_t count_global_valid_tokens(const std::vector<models::MicroBatch>& micro_batches);
  double accumulate(
      const std::vector<models::MicroBatch>& micro_batches,
      double inverse_tokens,
      StepStats& stats);
  void measure_and_clip(StepStats& stats);

  std::shared_ptr<models::CausalLM> model_;
  StepSettings settings_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::unique_ptr<parallel::DataParallel> data_parallel_;
  std::optional<AdamW> optimizer_;
  LossScaler scaler_;
  double update_scale_ =
      1;  // clipping factor that the next optimizer_step applies to the gradients
  bool last_step_finite_ = true;
};

}  // namespace mindspeed::train
