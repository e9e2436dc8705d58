// SPDX-License-Identifier: Apache-2.0
#include "train/recompute_planner.h"

#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "memory/buffer_pool.h"

namespace mindspeed::train {
namespace {

using models::Recomputation;
using models::ResidualStream;

constexpr int kTimings = 3;
constexpr int kTrials = 4;

std::vector<Recomputation> arrange(int64_t full, int64_t selective, int64_t none) {
  std::vector<Recomputation> plan(full, Recomputation::kFull);
  plan.insert(plan.end(), selective, Recomputation::kSelective);
  plan.insert(plan.end(), none, Recomputation::kNone);
  return plan;
}

const LayerCost& cost_of(const LayerCosts& costs, Recomputation kind) {
  return costs[static_cast<size_t>(kind)];
}

double seconds_of(const LayerCosts& costs, const std::vector<Recomputation>& plan) {
  double seconds = 0;
  for (Recomputation kind : plan) seconds += cost_of(costs, kind).seconds;
  return seconds;
}

// Two passes through the layer; what the second adds to the pool is what a layer in a stack keeps.
LayerCost measure_once(
    models::DecoderLayer& layer, const models::ForwardContext& context, const at::Tensor& input) {
  const auto start = std::chrono::steady_clock::now();
  ResidualStream stream{input, at::Tensor()};
  stream = layer.forward(stream, context);
  const auto before = memory::BufferPool::statistics().in_use_bytes;
  stream = layer.forward(std::move(stream), context);
  const auto after = memory::BufferPool::statistics().in_use_bytes;
  const at::Tensor grad = at::ones_like(stream.delta);
  torch::autograd::backward({stream.delta}, {grad});
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  return {static_cast<int64_t>(after) - static_cast<int64_t>(before), passed.count() / 2};
}

}  // namespace

std::vector<Recomputation> least_time_plan(
    const LayerCosts& costs, int64_t num_layers, int64_t budget_bytes) {
  std::vector<Recomputation> best = arrange(num_layers, 0, 0);
  double best_seconds = std::numeric_limits<double>::infinity();
  for (int64_t full = 0; full <= num_layers; ++full) {
    for (int64_t selective = 0; full + selective <= num_layers; ++selective) {
      const int64_t none = num_layers - full - selective;
      const int64_t bytes = full * cost_of(costs, Recomputation::kFull).kept_bytes +
                            selective * cost_of(costs, Recomputation::kSelective).kept_bytes +
                            none * cost_of(costs, Recomputation::kNone).kept_bytes;
      const std::vector<Recomputation> plan = arrange(full, selective, none);
      const double seconds = seconds_of(costs, plan);
      if (bytes <= budget_bytes && seconds < best_seconds) {
        best_seconds = seconds;
        best = plan;
      }
    }
  }
  return best;
}

LayerCosts measure_layer_costs(models::CausalLM& model, const models::MicroBatch& batch) {
  models::DecoderLayer& layer = *model.decoder().layers().front();
  const Recomputation usual = layer.recomputation();
  const models::ForwardContext context = model.forward_context(batch);
  const at::Tensor input =
      at::randn(
          {batch.input_ids.numel(), model.spec().hidden_size},
          at::TensorOptions().dtype(model.compute_dtype()).device(batch.input_ids.device()))
          .requires_grad_();
  LayerCosts costs;
  for (int timing = 0; timing <= kTimings; ++timing) {  // kinds take turns; the first is warm-up
    for (size_t kind = 0; kind < costs.size(); ++kind) {
      layer.set_recomputation(static_cast<Recomputation>(kind));
      LayerCost cost = measure_once(layer, context, input);
      if (timing > 1) cost.seconds = std::min(cost.seconds, costs[kind].seconds);
      costs[kind] = cost;
    }
  }
  layer.set_recomputation(usual);
  // Whatever a noisy clock says, computing more does not take less.
  for (size_t kind = 1; kind < costs.size(); ++kind) {
    costs[kind].seconds = std::max(costs[kind].seconds, costs[kind - 1].seconds);
  }
  return costs;
}

RecomputePlan fit_recomputation(
    const LayerCosts& costs,
    int64_t num_layers,
    int64_t budget_bytes,
    const std::function<int64_t(const std::vector<Recomputation>&)>& measured_peak) {
  RecomputePlan best{arrange(num_layers, 0, 0), 0, false, costs};
  best.peak_bytes = measured_peak(best.by_layer);
  best.fits = best.peak_bytes <= budget_bytes;
  if (!best.fits) return best;
  const int64_t least_kept = num_layers * cost_of(costs, Recomputation::kFull).kept_bytes;
  int64_t room = budget_bytes - best.peak_bytes + least_kept;
  std::vector<Recomputation> tried = best.by_layer;
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::vector<Recomputation> plan = least_time_plan(costs, num_layers, room);
    if (plan == tried) break;
    tried = plan;
    const int64_t peak = measured_peak(plan);
    // At equal times the solver's choice, which recomputes least, stands over all kFull.
    if (peak <= budget_bytes && seconds_of(costs, plan) <= seconds_of(costs, best.by_layer)) {
      best.by_layer = plan;
      best.peak_bytes = peak;
    }
    room += budget_bytes - peak;
  }
  return best;
}

}  // namespace mindspeed::train
