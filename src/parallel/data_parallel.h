// SPDX-License-Identifier: Apache-2.0
// How the data parallel ranks share parameters and gradients: alone, replicated (gradients
// all-reduced), or fully sharded (parameters gathered when needed, gradients reduce-scattered). The
// step engine sees only this interface.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "export.h"
#include "parallel/unit_boundary.h"

namespace mindspeed::parallel {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

class DataParallel {
 public:
  virtual ~DataParallel() = default;

  /// The leaf tensors that an optimizer updates on this rank.
  virtual NamedTensors parameters() const = 0;

  /// Announces the next backward pass; `last` arms the reduction of this step's gradients.
  virtual void begin_micro_batch(bool last) = 0;

  /// After the last backward: waits until every gradient is the sum over all ranks. Returns the
  /// seconds waited.
  virtual double finish_step() = 0;

  virtual void zero_gradients() = 0;

  /// Squared norm of the global gradient, float64 scalar; each element of the global model counts
  /// once.
  virtual at::Tensor squared_gradient_norm() = 0;

  /// The listener that the model must call at unit boundaries; null when none is needed.
  virtual std::shared_ptr<UnitBoundary> boundary() { return nullptr; }
};

/// One process: gradients stay where autograd puts them.
MINDSPEED_API std::unique_ptr<DataParallel> make_single_process(NamedTensors parameters);

/// Every rank holds all parameters; gradients are summed over `group` in buckets, overlapped with
/// backward.
MINDSPEED_API std::unique_ptr<DataParallel> make_replicated(
    NamedTensors parameters, c10::intrusive_ptr<c10d::ProcessGroup> group, int64_t bucket_bytes);

/// Every rank holds a shard of each parameter. `layers` are the units that the model announces by
/// number at its boundary, `root` is the rest. Afterwards the parameters are this rank's shards
/// except while the model runs.
MINDSPEED_API std::unique_ptr<DataParallel> make_fully_sharded(
    std::vector<NamedTensors> layers,
    NamedTensors root,
    c10::intrusive_ptr<c10d::ProcessGroup> group);

}  // namespace mindspeed::parallel
