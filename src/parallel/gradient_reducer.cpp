// SPDX-License-Identifier: Apache-2.0
#include "parallel/gradient_reducer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace mindspeed::parallel {
namespace {

struct Bucket {
  at::Tensor flat;
  std::vector<size_t> members;  // indices of parameters
  size_t pending = 0;           // gradients that the armed backward still owes
};

}  // namespace

struct GradientReducer::State {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> views;  // one a parameter: its place in the bucket
  std::vector<size_t> bucket_of;  // one a parameter
  std::vector<bool> arrived;      // one a parameter, in the armed backward
  std::vector<Bucket> buckets;
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  size_t next_bucket = 0;
  bool armed = false;

  void add_bucket(std::vector<size_t> members);
  void attach_gradients();
  void mark_arrived(size_t index);
  void launch_ready();
  void launch(Bucket& bucket);
};

namespace {

// Reports a parameter whose gradient has been accumulated.
template <typename State>
class ArrivalHook : public torch::autograd::PostAccumulateGradHook {
 public:
  ArrivalHook(std::weak_ptr<State> state, size_t index) : state_(std::move(state)), index_(index) {}

  void operator()(const at::Tensor& /*parameter*/) override {
    if (auto state = state_.lock(); state && state->armed) state->mark_arrived(index_);
  }

 private:
  std::weak_ptr<State> state_;
  size_t index_;
};

}  // namespace

void GradientReducer::State::add_bucket(std::vector<size_t> members) {
  int64_t size = 0;
  for (size_t index : members) size += parameters[index].numel();
  Bucket bucket{at::zeros({size}, parameters[members[0]].options()), std::move(members)};
  int64_t offset = 0;
  for (size_t index : bucket.members) {
    const at::Tensor& parameter = parameters[index];
    views[index] = bucket.flat.narrow(0, offset, parameter.numel()).view(parameter.sizes());
    bucket_of[index] = buckets.size();
    offset += parameter.numel();
  }
  buckets.push_back(std::move(bucket));
}

void GradientReducer::State::attach_gradients() {
  for (size_t index = 0; index < parameters.size(); ++index) {
    parameters[index].mutable_grad() = views[index];
  }
}

void GradientReducer::State::mark_arrived(size_t index) {
  if (arrived[index]) return;
  arrived[index] = true;
  --buckets[bucket_of[index]].pending;
  launch_ready();
}

void GradientReducer::State::launch_ready() {
  while (next_bucket < buckets.size() && buckets[next_bucket].pending == 0) {
    launch(buckets[next_bucket++]);
  }
}

void GradientReducer::State::launch(Bucket& bucket) {
  at::NoGradGuard no_grad;
  for (size_t index : bucket.members) {
    at::Tensor& gradient = parameters[index].mutable_grad();
    if (!gradient.defined()) {
      views[index].zero_();
    } else if (gradient.const_data_ptr() != views[index].const_data_ptr()) {
      views[index].copy_(gradient);
    }
    gradient = views[index];  // somebody may have replaced it, as optimizer.zero_grad() does
  }
  std::vector<at::Tensor> tensors{bucket.flat};
  works.push_back(group->allreduce(tensors));
}

GradientReducer::GradientReducer(
    std::vector<at::Tensor> parameters,
    c10::intrusive_ptr<c10d::ProcessGroup> group,
    int64_t bucket_bytes)
    : state_(std::make_shared<State>()) {
  state_->parameters = std::move(parameters);
  state_->group = std::move(group);
  const size_t count = state_->parameters.size();
  for (const at::Tensor& parameter : state_->parameters) {
    TORCH_CHECK_VALUE(
        parameter.scalar_type() == state_->parameters[0].scalar_type() &&
            parameter.device() == state_->parameters[0].device(),
        "gradient reducer: parameters must have one dtype and device, got ",
        parameter.scalar_type(),
        " on ",
        parameter.device(),
        " beside ",
        state_->parameters[0].scalar_type(),
        " on ",
        state_->parameters[0].device());
  }
  state_->views.resize(count);
  state_->bucket_of.resize(count);
  state_->arrived.resize(count);
  std::vector<size_t> members;
  int64_t bytes = 0;
  for (size_t index = count; index-- > 0;) {
    const auto size = static_cast<int64_t>(state_->parameters[index].nbytes());
    if (!members.empty() && bytes + size > bucket_bytes) {
      state_->add_bucket(std::exchange(members, {}));
      bytes = 0;
    }
    members.push_back(index);
    bytes += size;
  }
  if (!members.empty()) state_->add_bucket(std::move(members));
  for (size_t index = 0; index < count; ++index) {
    torch::autograd::impl::set_post_acc_grad_hooks(
        state_->parameters[index], std::make_unique<ArrivalHook<State>>(state_, index));
  }
  state_->attach_gradients();
}

GradientReducer::~GradientReducer() {
  for (const at::Tensor& parameter : state_->parameters) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  }
}

void GradientReducer::begin_last_micro_batch() {
  std::fill(state_->arrived.begin(), state_->arrived.end(), false);
  for (Bucket& bucket : state_->buckets) bucket.pending = bucket.members.size();
  state_->next_bucket = 0;
  state_->armed = true;
}

double GradientReducer::finish() {
  state_->armed = false;
  const auto start = std::chrono::steady_clock::now();
  while (state_->next_bucket < state_->buckets.size()) {
    state_->launch(state_->buckets[state_->next_bucket++]);
  }
  for (auto& work : state_->works) work->wait();
  state_->works.clear();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void GradientReducer::zero_gradients() {
  at::NoGradGuard no_grad;
  for (Bucket& bucket : state_->buckets) bucket.flat.zero_();
  state_->attach_gradients();
}

}  // namespace mindspeed::parallel
