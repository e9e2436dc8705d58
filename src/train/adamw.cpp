// SPDX-License-Identifier: Apache-2.0
#include "train/adamw.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include "ops/adamw/adamw.h"

namespace mindspeed::train {

AdamW::AdamW(parallel::NamedTensors parameters, OptimizerSettings settings) : settings_(settings) {
  at::NoGradGuard no_grad;
  for (auto& [name, parameter] : parameters) {
    auto& slots = parameter.dim() > 1 ? decayed_ : undecayed_;
    const bool reduced = c10::isReducedFloatingType(parameter.scalar_type());
    const at::ScalarType wide = reduced ? at::kFloat : parameter.scalar_type();
    at::Tensor exp_avg = at::zeros_like(parameter, wide);
    at::Tensor exp_avg_sq = at::zeros_like(parameter, wide);
    at::Tensor master = reduced ? parameter.detach().to(wide) : at::Tensor();
    slots.push_back({name, parameter, exp_avg, exp_avg_sq, master});
  }
}

void AdamW::step(double learning_rate, double grad_scale) {
  at::NoGradGuard no_grad;
  ++steps_;
  update(decayed_, learning_rate, settings_.weight_decay, grad_scale);
  update(undecayed_, learning_rate, 0.0, grad_scale);
}

void AdamW::update(
    const std::vector<Slot>& slots, double learning_rate, double weight_decay, double grad_scale) {
  std::vector<at::Tensor> parameters, gradients, exp_avgs, exp_avg_sqs, masters;
  for (const Slot& slot : slots) {
    if (!slot.parameter.grad().defined()) continue;
    parameters.push_back(slot.parameter);
    gradients.push_back(slot.parameter.grad());
    exp_avgs.push_back(slot.exp_avg);
    exp_avg_sqs.push_back(slot.exp_avg_sq);
    if (slot.master.defined()) masters.push_back(slot.master);
  }
  if (parameters.empty()) return;
  const ops::AdamWSettings settings{
      .lr = learning_rate,
      .beta1 = settings_.beta1,
      .beta2 = settings_.beta2,
      .eps = settings_.eps,
      .weight_decay = weight_decay,
      .step = steps_,
      .grad_scale = grad_scale};
  ops::adamw_(parameters, gradients, exp_avgs, exp_avg_sqs, masters, settings);
}

std::map<std::string, at::Tensor> AdamW::state() const {
  std::map<std::string, at::Tensor> state;
  for (const auto* slots : {&decayed_, &undecayed_}) {
    for (const Slot& slot : *slots) {
      state.emplace("exp_avg." + slot.name, slot.exp_avg);
      state.emplace("exp_avg_sq." + slot.name, slot.exp_avg_sq);
      if (slot.master.defined()) state.emplace("master." + slot.name, slot.master);
    }
  }
  return state;
}

void AdamW::load_state(const std::map<std::string, at::Tensor>& state) {
  at::NoGradGuard no_grad;
  for (auto& [name, target] : this->state()) {
    const auto found = state.find(name);
    TORCH_CHECK_VALUE(found != state.end(), "optimizer state lacks ", name);
    TORCH_CHECK_VALUE(
        found->second.sizes() == target.sizes(),
        "optimizer state ",
        name,
        " must have shape ",
        target.sizes(),
        ", got ",
        found->second.sizes());
    target.copy_(found->second);
  }
}

}  // namespace mindspeed::train
