// SPDX-License-Identifier: Apache-2.0
#include "train/non_finite_search.h"

#include <ATen/ops/isfinite.h>

#include "models/activation_observer.h"

namespace mindspeed::train {
namespace {

bool is_finite(const at::Tensor& tensor) {
  return at::isfinite(tensor).all().item<bool>();
}

std::string first_parameter(models::CausalLM& model) {
  for (const auto& item : model.named_parameters()) {
    if (item.value().numel() > 0 && !is_finite(item.value())) return item.key() + " (parameter)";
  }
  return "";
}

std::string first_in_forward_or_backward(
    models::CausalLM& model, const models::MicroBatch& batch, double z_loss, double loss_scale) {
  std::string forward_path;
  std::string backward_path;
  models::ObserveActivations listen([&](const std::string& path, const at::Tensor& output) {
    if (forward_path.empty() && !is_finite(output)) forward_path = path;
    if (!output.requires_grad()) return;
    output.register_hook([path, &backward_path](const at::Tensor& gradient) {
      if (backward_path.empty() && !is_finite(gradient)) backward_path = path;
    });
  });
  at::Tensor loss = model.loss(batch, z_loss).loss_sum * loss_scale;
  if (!forward_path.empty()) return forward_path + " (forward)";
  std::vector<at::Tensor> kept;
  for (auto& parameter : model.parameters())
    kept.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
  loss.backward();
  std::string parameter_path;
  auto named = model.named_parameters();
  for (size_t i = 0; i < named.size(); ++i) {
    at::Tensor gradient = std::exchange(named[i].value().mutable_grad(), kept[i]);
    if (parameter_path.empty() && gradient.defined() && !is_finite(gradient))
      parameter_path = named[i].key();
  }
  const std::string& path = backward_path.empty() ? parameter_path : backward_path;
  return path.empty() ? "" : path + " (backward)";
}

}  // namespace

std::string find_non_finite(
    models::CausalLM& model,
    const std::vector<models::MicroBatch>& micro_batches,
    double z_loss,
    double loss_scale) {
  std::string found = first_parameter(model);
  for (size_t index = 0; found.empty() && index < micro_batches.size(); ++index) {
    found = first_in_forward_or_backward(model, micro_batches[index], z_loss, loss_scale);
    if (!found.empty()) found += ", micro batch " + std::to_string(index);
  }
  return found;
}

}  // namespace mindspeed::train
