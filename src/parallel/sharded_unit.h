// SPDX-License-Identifier: Apache-2.0
// Full sharding (ZeRO stage 3, Rajbhandari et al. 2020; FSDP, Zhao et al. 2023) of a group of
// parameters that are gathered and freed together.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <optional>
#include <vector>

#include "export.h"

namespace mindspeed::parallel {

/// Rows of dim 0 that `rank` of `world_size` holds, by torch.chunk's rule (the last ranks may hold
/// fewer or none).
struct ShardRows {
  int64_t start;
  int64_t length;
};
MINDSPEED_API ShardRows shard_rows(int64_t rows, int64_t rank, int64_t world_size);

/// Between steps each parameter *is* this rank's shard, float32, which an optimizer updates;
/// gather() makes it the whole tensor, release() the shard again. It stays the same tensor object
/// throughout, and graphs that saved the whole one see it again after the next gather().
/// Collectives are issued in the order of the calls, which must agree on all ranks.
class MINDSPEED_API ShardedUnit {
 public:
  /// Cuts the parameters (float32 leaves of at least one dim, equal on all ranks). The whole
  /// tensors are kept in compute_dtype, gradients are reduced and kept in float32.
  ShardedUnit(
      std::vector<at::Tensor> parameters,
      c10::intrusive_ptr<c10d::ProcessGroup> group,
      std::optional<at::ScalarType> compute_dtype = std::nullopt);

  /// Starts the all-gather without waiting; nothing if the parameters are whole or on their way.
  void start_gather();
  /// Makes the parameters whole.
  void gather();
  /// Makes the parameters shards again and frees the whole ones.
  void release();
  bool is_gathered() const { return gathered_; }

  /// Starts reduce-scattering the whole gradients (a missing one counts as zero), multiplied by
  /// `scale` after the sum; takes them off the parameters.
  void start_gradient_reduction(double scale);
  /// Waits for the reductions and adds them to the shards' gradients. Returns seconds waited.
  double finish_gradient_reduction();
  /// Hands the accumulated gradients to the parameters; they must be shards.
  void attach_gradients();
  void zero_gradients();

  const std::vector<at::Tensor>& parameters() const { return parameters_; }

 private:
  struct Part {
    at::Tensor whole;     // compute dtype; its storage is empty while released
    at::Tensor shard;     // float32
    at::Tensor gradient;  // of the shard, float32; undefined: none yet
    int64_t padded_rows;  // rows a rank, the last ones padded
    int64_t row_size;
  };
  struct Reduction {
    c10::intrusive_ptr<c10d::Work> work;
    at::Tensor input;
    at::Tensor output;
    double scale;
  };
  void fill_whole(const at::Tensor& gathered);

  std::vector<at::Tensor> parameters_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::vector<Part> parts_;
  int64_t shard_size_ = 0;  // elements a rank, padding included
  bool gathered_ = false;
  c10::intrusive_ptr<c10d::Work> gather_work_;
  at::Tensor gather_input_;
  at::Tensor gather_output_;
  std::vector<Reduction> reductions_;
};

}  // namespace mindspeed::parallel
