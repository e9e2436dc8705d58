// SPDX-License-Identifier: Apache-2.0
// Told when a forward pass enters and leaves a unit (a group of parameters that are gathered and
// freed together), so that full sharding can gather before it and hang its backward work onto the
// tensors that cross.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "export.h"

namespace mindspeed::parallel {

class UnitBoundary {
 public:
  virtual ~UnitBoundary() = default;

  /// Called once before a forward pass touches any parameter.
  virtual void begin() = 0;

  /// Called with the tensors that go into unit `unit`; returns what the unit is to use instead.
  virtual std::vector<at::Tensor> enter(int64_t unit, std::vector<at::Tensor> inputs) = 0;

  /// Called with the unit's outputs; returns what the next unit is to use instead.
  virtual std::vector<at::Tensor> leave(int64_t unit, std::vector<at::Tensor> outputs) = 0;
};

/// Tells both: `outer` first on the way in, last on the way out. A null one is left out.
MINDSPEED_API std::shared_ptr<UnitBoundary> nest(
    std::shared_ptr<UnitBoundary> outer, std::shared_ptr<UnitBoundary> inner);

}  // namespace mindspeed::parallel
