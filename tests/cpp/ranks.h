// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one test process, over a small c10d backend: on_ranks(3, [](auto group) { ...
// }). Collectives sum in rank order and are complete when the call returns. A rank that fails, or
// waits for its peers beyond the time limit, ends all of them; the first error is the one that
// on_ranks throws.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>
#include <vector>

namespace mindspeed::testing {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
constexpr auto kRankTimeLimit = std::chrono::seconds(20);

// Where the ranks of one group show each other their tensors.
class MeetingPoint {
 public:
  explicit MeetingPoint(int size) : shown_(size), size_(size) {}

  // `read` gets every rank's tensor, in rank order, at a time when nobody changes any of them.
  template <class Read>
  void meet(int rank, const at::Tensor& tensor, Read read) {
    shown_[rank] = tensor;
    wait_for_all();
    for (const at::Tensor& other : shown_) {
      if (other.numel() != tensor.numel())
        throw std::runtime_error("ranks met in different collectives");
    }
    read(shown_);
    wait_for_all();
  }

  void fail(std::exception_ptr error) {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    changed_.notify_all();
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    const int64_t round = round_;
    if (++waiting_ == size_) {
      waiting_ = 0;
      ++round_;
      changed_.notify_all();
      return;
    }
    changed_.wait_for(lock, kRankTimeLimit, [&] { return round_ != round || error_; });
    if (round_ == round)
      throw std::runtime_error("a peer failed, or did not come within the time limit");
  }

  std::vector<at::Tensor> shown_;
  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr error_;
  int64_t round_ = 0;
  int waiting_ = 0;
};

class DoneWork : public c10d::Work {
 public:
  bool isCompleted() override { return true; }
  bool wait(std::chrono::milliseconds /*timeout*/) override { return true; }
};

class ThreadBackend : public c10d::Backend {
 public:
  ThreadBackend(std::shared_ptr<MeetingPoint> place, int rank, int size)
      : c10d::Backend(rank, size), place_(std::move(place)) {}

  const std::string getBackendName() const override { return "threads"; }

  c10::intrusive_ptr<c10d::Work> allreduce(
      std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& /*options*/) override {
    at::Tensor total;
    meet(tensors[0], [&](const std::vector<at::Tensor>& all) {
      total = all[0].clone();
      for (size_t rank = 1; rank < all.size(); ++rank) total.add_(all[rank]);
    });
    tensors[0].copy_(total);
    return done();
  }

  c10::intrusive_ptr<c10d::Work> _allgather_base(
      at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& /*options*/) override {
    meet(input, [&](const std::vector<at::Tensor>& all) {
      for (int64_t rank = 0; rank < getSize(); ++rank) {
        output.narrow(0, rank * input.numel(), input.numel()).copy_(all[rank]);
      }
    });
    return done();
  }

  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      at::Tensor& output,
      at::Tensor& input,
      const c10d::ReduceScatterOptions& /*options*/) override {
    meet(input, [&](const std::vector<at::Tensor>& all) {
      output.zero_();
      for (const at::Tensor& theirs : all) {
        output.add_(theirs.narrow(0, getRank() * output.numel(), output.numel()));
      }
    });
    return done();
  }

  // Collectives that this rank has started.
  int num_started() const { return num_started_; }

 private:
  template <class Read>
  void meet(const at::Tensor& tensor, Read read) {
    ++num_started_;
    place_->meet(getRank(), tensor, read);
  }

  static c10::intrusive_ptr<c10d::Work> done() { return c10::make_intrusive<DoneWork>(); }

  std::shared_ptr<MeetingPoint> place_;
  int num_started_ = 0;
};

inline int num_collectives(const Group& group) {
  return dynamic_cast<ThreadBackend&>(*group->getBackend(c10::DeviceType::CPU)).num_started();
}

inline void on_ranks(int size, const std::function<void(Group)>& work) {
  auto place = std::make_shared<MeetingPoint>(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        auto group = c10::make_intrusive<c10d::ProcessGroup>(rank, size);
        group->setBackend(
            c10::DeviceType::CPU,
            c10d::ProcessGroup::BackendType::CUSTOM,
            c10::intrusive_ptr<c10d::Backend>(
                c10::make_intrusive<ThreadBackend>(place, rank, size)));
        work(group);
      } catch (...) {
        place->fail(std::current_exception());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  place->rethrow();
}

}  // namespace mindspeed::testing
