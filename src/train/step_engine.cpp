// SPDX-License-Identifier: Apache-2.0
#include "train/step_engine.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/tensor.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "memory/buffer_pool.h"
#include "memory/resident.h"
#include "ops/squared_norm/squared_norm.h"
#include "parallel/unit_boundary.h"
#include "train/activation_swap.h"
#include "train/non_finite_search.h"

namespace mindspeed::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

parallel::NamedTensors named_parameters_of(const models::CausalLM& model) {
  parallel::NamedTensors parameters;
  for (const auto& item : model.named_parameters())
    parameters.emplace_back(item.key(), item.value());
  return parameters;
}

// Sums a float64 tensor over the ranks of `group` (null: this rank alone).
at::Tensor sum_over_ranks(at::Tensor value, c10d::ProcessGroup* group) {
  if (group != nullptr && group->getSize() > 1) {
    std::vector<at::Tensor> tensors{value};
    group->allreduce(tensors)->wait();
  }
  return value;
}

// The largest of each value over the ranks of `group` (null: this rank alone).
std::vector<double> largest_over_ranks(std::vector<double> values, c10d::ProcessGroup* group) {
  if (group == nullptr || group->getSize() == 1) return values;
  std::vector<at::Tensor> tensors{at::tensor(values, at::kDouble)};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  group->allreduce(tensors, options)->wait();
  const double* data = tensors[0].const_data_ptr<double>();
  return {data, data + values.size()};
}

// Throws unless all ranks hold the same parameters: training would silently average different
// models.
void check_equal_parameters(const parallel::NamedTensors& parameters, c10d::ProcessGroup* group) {
  if (group == nullptr || group->getSize() == 1) return;
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : parameters) tensors.push_back(tensor.detach());
  const double norm = ops::squared_norm(tensors).item<double>();
  const std::vector<double> extremes = largest_over_ranks({norm, -norm}, group);
  const double largest = extremes[0];
  const double smallest = -extremes[1];
  TORCH_CHECK_VALUE(
      largest == smallest,
      "model: all data parallel ranks must start from the same parameters, got squared norms from ",
      smallest,
      " to ",
      largest,
      "; build the model with the same seed or checkpoint on every rank");
}

// A unit a decoder layer, in order, and the root unit with everything else.
std::pair<std::vector<parallel::NamedTensors>, parallel::NamedTensors> sharding_units(
    const models::CausalLM& model, const parallel::NamedTensors& parameters) {
  std::vector<parallel::NamedTensors> layers;
  for (const auto& layer : model.decoder().layers()) {
    parallel::NamedTensors unit;
    for (const auto& item : layer->named_parameters())
      unit.emplace_back(layer->path() + "." + item.key(), item.value());
    layers.push_back(std::move(unit));
  }
  parallel::NamedTensors root;
  for (const auto& [name, tensor] : parameters) {
    if (name.find(".layers.") == std::string::npos) root.emplace_back(name, tensor);
  }
  return {layers, root};
}

std::unique_ptr<parallel::DataParallel> make_data_parallel(
    models::CausalLM& model,
    const StepSettings& settings,
    const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  parallel::NamedTensors parameters = named_parameters_of(model);
  check_equal_parameters(parameters, group.get());
  if (!group || group->getSize() == 1) return parallel::make_single_process(std::move(parameters));
  if (settings.fully_sharded) {
    auto [layers, root] = sharding_units(model, parameters);
    return parallel::make_fully_sharded(std::move(layers), std::move(root), group);
  }
  return parallel::make_replicated(std::move(parameters), group, settings.bucket_bytes);
}

std::shared_ptr<parallel::UnitBoundary> activation_swap(
    const models::CausalLM& model, const SwapSettings& swap) {
  if (!swap.activations) return nullptr;
  const bool on_cpu = model.parameters().front().is_cpu();
  return make_activation_swap(
      on_cpu ? memory::make_file_medium(swap.folder) : memory::make_host_medium(),
      static_cast<int64_t>(model.decoder().layers().size()));
}

}  // namespace

StepEngine::StepEngine(
    std::shared_ptr<models::CausalLM> model,
    StepSettings settings,
    c10::intrusive_ptr<c10d::ProcessGroup> group)
    : model_(std::move(model)),
      settings_(settings),
      group_(std::move(group)),
      data_parallel_(make_data_parallel(*model_, settings_, group_)),
      scaler_(settings_.compute_dtype == at::kHalf) {
  model_->set_compute_dtype(settings_.compute_dtype);
  model_->set_unit_boundary(
      parallel::nest(data_parallel_->boundary(), activation_swap(*model_, settings_.swap)));
  if (!settings_.recomputation.empty()) set_recomputation(settings_.recomputation);
  if (settings_.optimizer) optimizer_.emplace(data_parallel_->parameters(), *settings_.optimizer);
}

parallel::NamedTensors StepEngine::parameters() const {
  return data_parallel_->parameters();
}

int64_t StepEngine::count_global_valid_tokens(
    const std::vector<models::MicroBatch>& micro_batches) {
  int64_t valid = 0;
  for (const auto& batch : micro_batches) valid += batch.labels.ne(-100).sum().item<int64_t>();
  at::Tensor total = at::tensor({static_cast<double>(valid)}, at::kDouble);
  valid = std::llround(sum_over_ranks(total, group_.get()).item<double>());
  TORCH_CHECK_VALUE(
      valid > 0,
      "the global batch must hold at least one token that counts, got none: every label is -100");
  return valid;
}

// Forward and backward of each micro batch; returns this rank's sum of losses.
double StepEngine::accumulate(
    const std::vector<models::MicroBatch>& micro_batches, double inverse_tokens, StepStats& stats) {
  double loss_sum = 0;
  for (size_t index = 0; index < micro_batches.size(); ++index) {
    data_parallel_->begin_micro_batch(index + 1 == micro_batches.size());
    const auto forward_start = Clock::now();
    at::Tensor sum = model_->loss(micro_batches[index], settings_.z_loss).loss_sum;
    loss_sum += sum.detach().item<double>();
    stats.forward_s += seconds_since(forward_start);
    const auto backward_start = Clock::now();
    (sum * (inverse_tokens * scaler_.scale())).backward();
    stats.backward_s += seconds_since(backward_start);
  }
  return loss_sum;
}

// The norm of the unscaled global gradient, and the factor that brings it to at most clip_norm.
void StepEngine::measure_and_clip(StepStats& stats) {
  at::NoGradGuard no_grad;
  const auto start = Clock::now();
  stats.grad_norm =
      std::sqrt(data_parallel_->squared_gradient_norm().item<double>()) / scaler_.scale();
  stats.finite = std::isfinite(stats.loss) && std::isfinite(stats.grad_norm);
  double factor = 1.0 / scaler_.scale();
  if (settings_.clip_norm > 0 && stats.grad_norm > settings_.clip_norm) {
    factor *= settings_.clip_norm / (stats.grad_norm + 1e-6);
  }
  update_scale_ = factor;
  if (!optimizer_ && stats.finite && factor != 1.0) {
    std::vector<at::Tensor> gradients;
    for (auto& [name, tensor] : data_parallel_->parameters()) {
      if (tensor.grad().defined()) gradients.push_back(tensor.grad());
    }
    at::_foreach_mul_(gradients, factor);
  }
  stats.clip_s = seconds_since(start);
}

StepStats StepEngine::forward_backward(const std::vector<models::MicroBatch>& micro_batches) {
  TORCH_CHECK_VALUE(!micro_batches.empty(), "a step needs at least one micro batch");
  StepStats stats;
  stats.loss_scale = scaler_.scale();
  stats.valid_tokens = count_global_valid_tokens(micro_batches);
  data_parallel_->zero_gradients();
  const double inverse_tokens = 1.0 / static_cast<double>(stats.valid_tokens);
  const double loss_sum = accumulate(micro_batches, inverse_tokens, stats);
  const auto reduce_start = Clock::now();
  data_parallel_->finish_step();
  at::Tensor total = at::tensor({loss_sum}, at::kDouble);
  stats.loss = sum_over_ranks(total, group_.get()).item<double>() * inverse_tokens;
  stats.reduce_wait_s = seconds_since(reduce_start);
  measure_and_clip(stats);
  last_step_finite_ = stats.finite;
  scaler_.update(!stats.finite);
  return stats;
}

void StepEngine::optimizer_step(double learning_rate) {
  TORCH_CHECK_VALUE(
      optimizer_.has_value(), "this step engine was made without an optimizer of its own");
  if (last_step_finite_) optimizer_->step(learning_rate, update_scale_);
}

void StepEngine::set_recomputation(const std::vector<models::Recomputation>& by_layer) {
  const auto& layers = model_->decoder().layers();
  TORCH_CHECK_VALUE(
      by_layer.size() == layers.size(),
      "recompute must have one entry a layer (",
      layers.size(),
      "), got ",
      by_layer.size());
  for (size_t i = 0; i < layers.size(); ++i) layers[i]->set_recomputation(by_layer[i]);
}

RecomputePlan StepEngine::plan_recomputation(
    const std::vector<models::MicroBatch>& micro_batches, int64_t budget_bytes) {
  TORCH_CHECK_VALUE(
      !settings_.fully_sharded, "recomputation is not planned for sharded parameters");
  TORCH_CHECK_VALUE(
      memory::BufferPool::statistics().enabled,
      "recomputation is planned from the buffer pool's counters, which is not on");
  TORCH_CHECK_VALUE(
      !settings_.swap.activations, "recomputation is not planned for activations that are swapped");
  const LossScaler usual_scaler = scaler_;
  const auto num_layers = static_cast<int64_t>(model_->decoder().layers().size());
  auto measured_peak = [&](const std::vector<models::Recomputation>& by_layer) {
    set_recomputation(by_layer);
    memory::BufferPool::trim();
    memory::reset_peak_resident();
    forward_backward(micro_batches);
    const auto peak = static_cast<double>(memory::peak_resident_bytes());
    return static_cast<int64_t>(largest_over_ranks({peak}, group_.get())[0]);
  };
  const std::vector<models::Recomputation> all_full(num_layers, models::Recomputation::kFull);
  measured_peak(all_full);  // gradients and buckets come into being
  LayerCosts costs = measure_layer_costs(*model_, micro_batches.front());
  for (LayerCost& cost : costs) {
    const auto largest =
        largest_over_ranks({static_cast<double>(cost.kept_bytes), cost.seconds}, group_.get());
    cost = {static_cast<int64_t>(largest[0]), largest[1]};
  }
  const RecomputePlan plan = fit_recomputation(costs, num_layers, budget_bytes, measured_peak);
  set_recomputation(plan.by_layer);
  memory::BufferPool::trim();
  zero_gradients();
  scaler_ = usual_scaler;
  return plan;
}

void StepEngine::zero_gradients() {
  data_parallel_->zero_gradients();
}

std::map<std::string, at::Tensor> StepEngine::optimizer_state() const {
  return optimizer_ ? optimizer_->state() : std::map<std::string, at::Tensor>{};
}

void StepEngine::load_optimizer_state(const std::map<std::string, at::Tensor>& state) {
  TORCH_CHECK_VALUE(
      optimizer_.has_value(), "this step engine was made without an optimizer of its own");
  optimizer_->load_state(state);
}

std::string StepEngine::state_json() const {
  nlohmann::json state;
  state["loss_scaler"] = nlohmann::json::parse(scaler_.state_json());
  state["optimizer_steps"] = optimizer_ ? optimizer_->steps() : 0;
  return state.dump();
}

void StepEngine::load_state_json(const std::string& text) {
  const auto state = nlohmann::json::parse(text);
  scaler_.load_state_json(state.at("loss_scaler").dump());
  if (optimizer_) optimizer_->set_steps(state.at("optimizer_steps").get<int64_t>());
}

std::string StepEngine::find_non_finite(const std::vector<models::MicroBatch>& micro_batches) {
  return train::find_non_finite(*model_, micro_batches, settings_.z_loss, scaler_.scale());
}

}  // namespace mindspeed::train
