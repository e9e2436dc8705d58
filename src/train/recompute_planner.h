// SPDX-License-Identifier: Apache-2.0
// Which layers recompute what, so that a step stays under a memory budget and takes the least time.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "export.h"
#include "models/causal_lm.h"

namespace mindspeed::train {

/// What one layer costs with a kind of recomputation.
struct LayerCost {
  int64_t kept_bytes = 0;  // from forward until backward
  double seconds = 0;      // forward and backward
};

/// By models::Recomputation, in its order.
using LayerCosts = std::array<LayerCost, 3>;

/// The assignment of least time whose kept bytes are at most `budget_bytes`; all kFull when none
/// is. Exact: layers are alike, so only the numbers of each kind matter. The layers that recompute
/// most come first, because their second run then falls where least is kept.
MINDSPEED_API std::vector<models::Recomputation> least_time_plan(
    const LayerCosts& costs, int64_t num_layers, int64_t budget_bytes);

/// Measures the first layer on activations of the batch's shape. Kept bytes are read off the buffer
/// pool, which must be on; times are the least of three. Gradients of its parameters are added to.
LayerCosts measure_layer_costs(models::CausalLM& model, const models::MicroBatch& batch);

struct RecomputePlan {
  std::vector<models::Recomputation> by_layer;
  int64_t peak_bytes = 0;  // measured
  bool fits = false;       // peak_bytes <= budget
  LayerCosts costs;
};

/// Solves, tries the solution and corrects the room left for activations by what was measured, a
/// few times. `measured_peak` runs a step with a plan and returns its peak. All ranks must see the
/// same costs and peaks.
MINDSPEED_API RecomputePlan fit_recomputation(
    const LayerCosts& costs,
    int64_t num_layers,
    int64_t budget_bytes,
    const std::function<int64_t(const std::vector<models::Recomputation>&)>& measured_peak);

}  // namespace mindspeed::train
