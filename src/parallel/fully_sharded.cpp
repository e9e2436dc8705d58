// SPDX-License-Identifier: Apache-2.0
// Data parallelism with full sharding: layers are units that are gathered just before they run,
// forward and backward, the next one's gather under way meanwhile; what is left (embedding, last
// norm, output) is the root unit, whole from the first forward to the end of the step.
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <optional>

#include "ops/squared_norm/squared_norm.h"
#include "parallel/data_parallel.h"
#include "parallel/sharded_unit.h"

namespace mindspeed::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Runs an action when backward passes the one or two tensors it is put on; changes nothing else.
class OnBackward : public torch::autograd::Function<OnBackward> {
 public:
  static variable_list forward(
      AutogradContext* context,
      const at::Tensor& first,
      const std::optional<at::Tensor>& second,
      int64_t action) {
    context->saved_data["action"] = action;
    return second ? variable_list{first, *second} : variable_list{first};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    auto* action = reinterpret_cast<std::function<void()>*>(context->saved_data["action"].toInt());
    (*action)();
    grads.resize(3);
    return grads;
  }
};

class LayerUnits : public UnitBoundary {
 public:
  explicit LayerUnits(std::vector<std::unique_ptr<ShardedUnit>> units) : units_(std::move(units)) {
    for (size_t unit = 0; unit < units_.size(); ++unit) {
      before_backward_.emplace_back([this, unit] { enter_backward(unit); });
      after_backward_.emplace_back([this, unit] { leave_backward(unit); });
    }
  }

  std::vector<at::Tensor> enter(int64_t unit, std::vector<at::Tensor> inputs) override {
    units_[unit]->gather();
    if (unit + 1 < static_cast<int64_t>(units_.size())) units_[unit + 1]->start_gather();
    return at::GradMode::is_enabled() ? hang(after_backward_[unit], inputs) : inputs;
  }

  std::vector<at::Tensor> leave(int64_t unit, std::vector<at::Tensor> outputs) override {
    units_[unit]->release();
    return at::GradMode::is_enabled() ? hang(before_backward_[unit], outputs) : outputs;
  }

  std::vector<std::unique_ptr<ShardedUnit>>& units() { return units_; }

 private:
  static std::vector<at::Tensor> hang(
      std::function<void()>& action, const std::vector<at::Tensor>& tensors) {
    const auto second = tensors.size() > 1 ? std::optional(tensors[1]) : std::nullopt;
    return OnBackward::apply(tensors[0], second, reinterpret_cast<int64_t>(&action));
  }

  void enter_backward(size_t unit) {
    units_[unit]->gather();
    if (unit > 0) units_[unit - 1]->start_gather();
  }

  void leave_backward(size_t unit) {
    units_[unit]->start_gradient_reduction(1.0);
    units_[unit]->release();
  }

  std::vector<std::unique_ptr<ShardedUnit>> units_;
  std::vector<std::function<void()>> before_backward_;
  std::vector<std::function<void()>> after_backward_;
};

class FullySharded : public DataParallel {
 public:
  FullySharded(
      std::vector<NamedTensors> layers,
      NamedTensors root,
      c10::intrusive_ptr<c10d::ProcessGroup> group)
      : group_(group) {
    std::vector<std::unique_ptr<ShardedUnit>> units;
    for (const NamedTensors& layer : layers) {
      parameters_.insert(parameters_.end(), layer.begin(), layer.end());
      units.push_back(std::make_unique<ShardedUnit>(tensors_of(layer), group));
    }
    parameters_.insert(parameters_.end(), root.begin(), root.end());
    root_ = std::make_unique<ShardedUnit>(tensors_of(root), group);
    layers_ = std::make_shared<RootedUnits>(std::move(units), *root_);
  }

  NamedTensors parameters() const override { return parameters_; }

  void begin_micro_batch(bool /*last*/) override {}

  double finish_step() override {
    root_->start_gradient_reduction(1.0);
    root_->release();
    double seconds = root_->finish_gradient_reduction();
    root_->attach_gradients();
    for (auto& unit : layers_->units()) {
      seconds += unit->finish_gradient_reduction();
      unit->release();
      unit->attach_gradients();
    }
    return seconds;
  }

  void zero_gradients() override {
    root_->release();  // an evaluation may have left it whole, and stale since the last update
    root_->zero_gradients();
    for (auto& unit : layers_->units()) unit->zero_gradients();
  }

  // Every element lies on exactly one rank, so the ranks' sums add up.
  at::Tensor squared_gradient_norm() override {
    std::vector<at::Tensor> gradients;
    for (const auto& [name, tensor] : parameters_) {
      if (tensor.grad().defined() && tensor.grad().numel() > 0) gradients.push_back(tensor.grad());
    }
    std::vector<at::Tensor> total{ops::squared_norm(gradients)};
    group_->allreduce(total)->wait();
    return total[0];
  }

  std::shared_ptr<UnitBoundary> boundary() override { return layers_; }

 private:
  class RootedUnits : public LayerUnits {
   public:
    RootedUnits(std::vector<std::unique_ptr<ShardedUnit>> units, ShardedUnit& root)
        : LayerUnits(std::move(units)), root_(root) {}
    void begin() override { root_.gather(); }

   private:
    ShardedUnit& root_;
  };

  static std::vector<at::Tensor> tensors_of(const NamedTensors& named) {
    std::vector<at::Tensor> tensors;
    for (const auto& [name, tensor] : named) tensors.push_back(tensor);
    return tensors;
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  NamedTensors parameters_;
  std::unique_ptr<ShardedUnit> root_;
  std::shared_ptr<RootedUnits> layers_;
};

}  // namespace

std::unique_ptr<DataParallel> make_fully_sharded(
    std::vector<NamedTensors> layers,
    NamedTensors root,
    c10::intrusive_ptr<c10d::ProcessGroup> group) {
  return std::make_unique<FullySharded>(std::move(layers), std::move(root), std::move(group));
}

}  // namespace mindspeed::parallel
