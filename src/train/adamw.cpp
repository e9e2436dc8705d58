// SPDX-License-Identifier: Apache-2.0
#include "train/adamw.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "memory/swapped_state.h"
#include "ops/adamw/adamw.h"

namespace mindspeed::train {

namespace {

// Elements of a bucket of swapped moments: those of two buckets are in memory at a time.
constexpr int64_t kBucketElements = int64_t{4} << 20;

// A run of elements of one parameter with its gradient and moments, all flat.
struct Part {
  at::Tensor parameter;
  at::Tensor gradient;
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
};

// On an accelerator the moments visit the device for the update (this branch has not been run: no
// accelerator is at hand); on a CPU the operator works on the file's pages themselves.
void update_part(const Part& part, const ops::AdamWSettings& settings) {
  const at::Device device = part.parameter.device();
  at::Tensor exp_avg = part.exp_avg.to(device);
  at::Tensor exp_avg_sq = part.exp_avg_sq.to(device);
  ops::adamw_({part.parameter}, {part.gradient}, {exp_avg}, {exp_avg_sq}, {}, settings);
  if (device.is_cpu()) return;
  part.exp_avg.copy_(exp_avg);
  part.exp_avg_sq.copy_(exp_avg_sq);
}

}  // namespace

AdamW::AdamW(parallel::NamedTensors parameters, OptimizerSettings settings)
    : settings_(std::move(settings)) {
  at::NoGradGuard no_grad;
  std::optional<memory::SwappedState> file;
  if (!settings_.swap_folder.empty()) {
    int64_t elements = 0;
    for (const auto& [name, parameter] : parameters) elements += parameter.numel();
    file.emplace(settings_.swap_folder, 2 * elements);
  }
  for (auto& [name, parameter] : parameters) {
    auto& slots = parameter.dim() > 1 ? decayed_ : undecayed_;
    const bool reduced = c10::isReducedFloatingType(parameter.scalar_type());
    const at::ScalarType wide = reduced ? at::kFloat : parameter.scalar_type();
    TORCH_INTERNAL_ASSERT(!file || parameter.scalar_type() == at::kFloat);
    auto moment = [&] {
      return file ? file->take(parameter.sizes()) : at::zeros_like(parameter, wide);
    };
    at::Tensor exp_avg = moment();
    at::Tensor exp_avg_sq = moment();
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
  const ops::AdamWSettings settings{
      .lr = learning_rate,
      .beta1 = settings_.beta1,
      .beta2 = settings_.beta2,
      .eps = settings_.eps,
      .weight_decay = weight_decay,
      .step = steps_,
      .grad_scale = grad_scale};
  if (!settings_.swap_folder.empty()) return update_swapped(slots, settings);
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
  ops::adamw_(parameters, gradients, exp_avgs, exp_avg_sqs, masters, settings);
}

// Part by part, while the kernel reads the next one's moments; the update is elementwise, so the
// cuts change nothing.
void AdamW::update_swapped(const std::vector<Slot>& slots, const ops::AdamWSettings& settings) {
  std::vector<Part> parts;
  for (const Slot& slot : slots) {
    if (!slot.parameter.grad().defined()) continue;
    const int64_t size = slot.parameter.numel();
    const Part whole{
        slot.parameter.view({-1}),
        slot.parameter.grad().reshape({-1}),
        slot.exp_avg.view({-1}),
        slot.exp_avg_sq.view({-1})};
    for (int64_t begin = 0; begin < size; begin += kBucketElements) {
      const int64_t length = std::min(kBucketElements, size - begin);
      auto cut = [&](const at::Tensor& flat) { return flat.narrow(0, begin, length); };
      parts.push_back(
          {cut(whole.parameter), cut(whole.gradient), cut(whole.exp_avg), cut(whole.exp_avg_sq)});
    }
  }
  for (size_t index = 0; index < parts.size(); ++index) {
    if (index + 1 < parts.size()) {
      memory::read_ahead(parts[index + 1].exp_avg);
      memory::read_ahead(parts[index + 1].exp_avg_sq);
    }
    update_part(parts[index], settings);
    memory::drop_pages(parts[index].exp_avg);
    memory::drop_pages(parts[index].exp_avg_sq);
  }
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
    if (!settings_.swap_folder.empty()) memory::drop_pages(target);
  }
}

}  // namespace mindspeed::train
