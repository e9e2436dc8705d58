// SPDX-License-Identifier: Apache-2.0
#include "parallel/data_parallel.h"

#include "ops/squared_norm/squared_norm.h"
#include "parallel/gradient_reducer.h"

namespace mindspeed::parallel {
namespace {

std::vector<at::Tensor> tensors_of(const NamedTensors& parameters) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : parameters) tensors.push_back(tensor);
  return tensors;
}

at::Tensor squared_norm_of_gradients(const NamedTensors& parameters) {
  std::vector<at::Tensor> gradients;
  for (const auto& [name, tensor] : parameters) {
    if (tensor.grad().defined()) gradients.push_back(tensor.grad());
  }
  return ops::squared_norm(gradients);
}

class SingleProcess : public DataParallel {
 public:
  explicit SingleProcess(NamedTensors parameters) : parameters_(std::move(parameters)) {}

  NamedTensors parameters() const override { return parameters_; }
  void begin_micro_batch(bool /*last*/) override {}
  double finish_step() override { return 0; }
  at::Tensor squared_gradient_norm() override { return squared_norm_of_gradients(parameters_); }

  void zero_gradients() override {
    for (auto& [name, tensor] : parameters_) tensor.mutable_grad() = at::Tensor();
  }

 private:
  NamedTensors parameters_;
};

class Replicated : public DataParallel {
 public:
  Replicated(
      NamedTensors parameters, c10::intrusive_ptr<c10d::ProcessGroup> group, int64_t bucket_bytes)
      : parameters_(std::move(parameters)),
        reducer_(tensors_of(parameters_), std::move(group), bucket_bytes) {}

  NamedTensors parameters() const override { return parameters_; }
  void begin_micro_batch(bool last) override {
    if (last) reducer_.begin_last_micro_batch();
  }
  double finish_step() override { return reducer_.finish(); }
  void zero_gradients() override { reducer_.zero_gradients(); }
  at::Tensor squared_gradient_norm() override { return squared_norm_of_gradients(parameters_); }

 private:
  NamedTensors parameters_;
  GradientReducer reducer_;
};

}  // namespace

std::unique_ptr<DataParallel> make_single_process(NamedTensors parameters) {
  return std::make_unique<SingleProcess>(std::move(parameters));
}

std::unique_ptr<DataParallel> make_replicated(
    NamedTensors parameters, c10::intrusive_ptr<c10d::ProcessGroup> group, int64_t bucket_bytes) {
  return std::make_unique<Replicated>(std::move(parameters), std::move(group), bucket_bytes);
}

}  // namespace mindspeed::parallel
