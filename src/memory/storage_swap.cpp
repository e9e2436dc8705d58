// SPDX-License-Identifier: Apache-2.0
#include "memory/storage_swap.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace mindspeed::memory {
namespace {

// The whole of a storage as bytes.
at::Tensor bytes_of(const c10::intrusive_ptr<c10::StorageImpl>& storage) {
  const auto size = static_cast<int64_t>(storage->nbytes());
  return at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage->device()))
      .set_(c10::Storage(storage), 0, {size}, {1});
}

}  // namespace

class SwapBatch {
 public:
  SwapBatch(std::shared_ptr<SwapMedium> medium, std::vector<WeakStorage> storages)
      : medium_(std::move(medium)) {
    for (WeakStorage& storage : storages) entries_.push_back({std::move(storage), std::nullopt});
  }

  ~SwapBatch() {
    for (const Entry& entry : entries_) {
      if (entry.slot) medium_->release(*entry.slot);
    }
  }

  // On the worker's thread only, as is move_in().
  void move_out() {
    for (Entry& entry : entries_) {
      const auto storage = entry.storage.lock();
      if (!storage || storage->data() == nullptr || storage->allocator() == nullptr) continue;
      entry.slot = medium_->store(bytes_of(storage));
      storage->set_data_ptr_noswap(c10::DataPtr(nullptr, storage->device()));
    }
  }

  void move_in() {
    for (Entry& entry : entries_) {
      if (!entry.slot) continue;
      if (const auto storage = entry.storage.lock()) {
        storage->set_data_ptr_noswap(storage->allocator()->allocate(storage->nbytes()));
        medium_->load(*entry.slot, bytes_of(storage));
      }
      medium_->release(*std::exchange(entry.slot, std::nullopt));
    }
  }

  bool returning = false;  // bring_back() was called

  // Guarded by the worker's mutex.
  int pending = 0;            // jobs not yet done
  std::exception_ptr failed;  // by a job, until somebody waits

 private:
  struct Entry {
    WeakStorage storage;
    std::optional<SwapMedium::Slot> slot;  // while out
  };
  std::shared_ptr<SwapMedium> medium_;
  std::vector<Entry> entries_;
};

struct StorageSwap::Worker {
  using Action = void (SwapBatch::*)();

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<std::shared_ptr<SwapBatch>, Action>> jobs;
  bool stopping = false;
  std::thread thread{[this] { run(); }};

  ~Worker() {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    thread.join();
  }

  void add(const std::shared_ptr<SwapBatch>& batch, Action action) {
    {
      std::lock_guard lock(mutex);
      ++batch->pending;
      jobs.emplace_back(batch, action);
    }
    changed.notify_all();
  }

  void run() {
    at::NoGradGuard no_grad;
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stopping || !jobs.empty(); });
      if (jobs.empty()) return;
      auto [batch, action] = std::move(jobs.front());
      jobs.pop_front();
      lock.unlock();
      std::exception_ptr failed;
      try {
        ((*batch).*action)();
      } catch (...) {
        failed = std::current_exception();
      }
      lock.lock();
      --batch->pending;
      if (failed) batch->failed = failed;
      lock.unlock();
      batch.reset();  // may free storages
      changed.notify_all();
      lock.lock();
    }
  }

  // Waits for the batch's jobs and throws what one of them threw.
  void wait(const std::shared_ptr<SwapBatch>& batch) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return batch->pending == 0; });
    if (batch->failed) std::rethrow_exception(std::exchange(batch->failed, nullptr));
  }
};

StorageSwap::StorageSwap(std::shared_ptr<SwapMedium> medium)
    : medium_(std::move(medium)), worker_(std::make_unique<Worker>()) {}

StorageSwap::~StorageSwap() = default;

std::shared_ptr<SwapBatch> StorageSwap::send_out(std::vector<WeakStorage> storages) {
  auto batch = std::make_shared<SwapBatch>(medium_, std::move(storages));
  worker_->add(batch, &SwapBatch::move_out);
  return batch;
}

void StorageSwap::bring_back(const std::shared_ptr<SwapBatch>& batch) {
  if (std::exchange(batch->returning, true)) return;
  worker_->add(batch, &SwapBatch::move_in);
}

void StorageSwap::wait_out(const std::shared_ptr<SwapBatch>& batch) {
  worker_->wait(batch);
}

void StorageSwap::wait_back(const std::shared_ptr<SwapBatch>& batch) {
  bring_back(batch);
  try {
    worker_->wait(batch);
  } catch (const c10::OutOfMemoryError&) {
    // Asked for ahead of time, while the layer after it still had its memory; now that is free.
    worker_->add(batch, &SwapBatch::move_in);
    worker_->wait(batch);
  }
}

}  // namespace mindspeed::memory
