// SPDX-License-Identifier: Apache-2.0
#include "train/activation_swap.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "memory/storage_swap.h"
#include "models/activation_observer.h"

namespace mindspeed::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr size_t kSmallest = size_t{64} << 10;  // bytes; less is not worth a system call

// What a layer kept in one forward pass. Held by the autograd graph.
struct KeptActivations : torch::CustomClassHolder {
  std::shared_ptr<memory::StorageSwap> swap;
  std::shared_ptr<memory::SwapBatch> batch;  // null: it stayed
  c10::intrusive_ptr<KeptActivations> of_layer_before;
};

// Changes nothing; before backward enters the layer whose outputs pass here, the layer's kept
// tensors are back.
class ReturnKept : public torch::autograd::Function<ReturnKept> {
 public:
  static variable_list forward(
      AutogradContext* context,
      const at::Tensor& first,
      const std::optional<at::Tensor>& second,
      const c10::intrusive_ptr<KeptActivations>& kept) {
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    return second ? variable_list{first, *second} : variable_list{first};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto kept = c10::static_intrusive_pointer_cast<KeptActivations>(
        context->saved_data["kept"].toCapsule());
    if (kept->batch) kept->swap->wait_back(kept->batch);
    const auto before = std::exchange(kept->of_layer_before, nullptr);
    if (before && before->batch) before->swap->bring_back(before->batch);
    grads.resize(3);
    return grads;
  }
};

// Storages that a layer touched, each once.
class Collection {
 public:
  void add(const at::Tensor& tensor) {
    if (tensor.has_storage() && tensor.storage().nbytes() >= kSmallest) {
      storages_.try_emplace(
          tensor.storage().unsafeGetStorageImpl(), tensor.storage().getWeakStorageImpl());
    }
  }

  std::vector<memory::WeakStorage> without(const std::vector<at::Tensor>& excluded) {
    for (const at::Tensor& tensor : excluded) {
      storages_.erase(tensor.storage().unsafeGetStorageImpl());
    }
    std::vector<memory::WeakStorage> result;
    for (auto& [address, storage] : storages_) result.push_back(std::move(storage));
    return result;
  }

 private:
  // A weak reference keeps the address from being used again.
  std::map<c10::StorageImpl*, memory::WeakStorage> storages_;
};

class ActivationSwap final : public parallel::UnitBoundary {
 public:
  ActivationSwap(std::shared_ptr<memory::SwapMedium> medium, int64_t num_layers)
      : swap_(std::make_shared<memory::StorageSwap>(std::move(medium))), num_layers_(num_layers) {}

  void begin() override {
    listen_.reset();  // a forward pass that was cut short by an error
    latest_.reset();
  }

  std::vector<at::Tensor> enter(int64_t /*unit*/, std::vector<at::Tensor> inputs) override {
    if (!at::GradMode::is_enabled()) return inputs;
    collection_ = {};
    for (const at::Tensor& input : inputs) collection_.add(input);
    listen_.emplace(
        [this](const std::string& /*path*/, const at::Tensor& output) { collection_.add(output); });
    return inputs;
  }

  std::vector<at::Tensor> leave(int64_t unit, std::vector<at::Tensor> outputs) override {
    listen_.reset();
    const bool kept_for_backward = at::GradMode::is_enabled() && outputs[0].requires_grad();
    if (!kept_for_backward) return outputs;
    if (latest_ && latest_->batch) swap_->wait_out(latest_->batch);
    auto kept = c10::make_intrusive<KeptActivations>();
    kept->swap = swap_;
    if (unit + 1 < num_layers_) kept->batch = swap_->send_out(collection_.without(outputs));
    kept->of_layer_before = std::exchange(latest_, kept);
    const auto second = outputs.size() > 1 ? std::optional(outputs[1]) : std::nullopt;
    return ReturnKept::apply(outputs[0], second, kept);
  }

 private:
  std::shared_ptr<memory::StorageSwap> swap_;
  int64_t num_layers_;
  Collection collection_;
  std::optional<models::ObserveActivations> listen_;
  c10::intrusive_ptr<KeptActivations> latest_;  // of the layer that was left last
};

}  // namespace

std::shared_ptr<parallel::UnitBoundary> make_activation_swap(
    std::shared_ptr<memory::SwapMedium> medium, int64_t num_layers) {
  return std::make_shared<ActivationSwap>(std::move(medium), num_layers);
}

}  // namespace mindspeed::train
