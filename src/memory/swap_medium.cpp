// SPDX-License-Identifier: Apache-2.0
#include "memory/swap_medium.h"

#include <map>
#include <mutex>

#include "memory/swap_file.h"

namespace mindspeed::memory {
namespace {

// A step stores, loads and releases everything, so the file starts anew whenever it holds nothing:
// no free list, and no growth beyond the largest step.
class FileMedium final : public SwapMedium {
 public:
  explicit FileMedium(const std::string& folder) : file_(folder) {}

  Slot store(const at::Tensor& bytes) override {
    Slot slot = 0;
    {
      std::lock_guard lock(mutex_);
      if (held_ == 0) end_ = 0;
      ++held_;
      slot = end_;
      end_ += bytes.numel();
    }
    try {
      file_.write(slot, bytes.const_data_ptr(), bytes.numel());
    } catch (...) {
      release(slot);
      throw;
    }
    return slot;
  }

  void load(Slot slot, const at::Tensor& bytes) override {
    file_.read(slot, bytes.mutable_data_ptr(), bytes.numel());
  }

  void release(Slot /*slot*/) override {
    std::lock_guard lock(mutex_);
    --held_;
  }

 private:
  SwapFile file_;
  std::mutex mutex_;
  int64_t held_ = 0;  // slots in use
  int64_t end_ = 0;
};

class HostMedium final : public SwapMedium {
 public:
  Slot store(const at::Tensor& bytes) override {
    at::Tensor copy = bytes.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
    std::lock_guard lock(mutex_);
    copies_.emplace(++last_, std::move(copy));
    return last_;
  }

  void load(Slot slot, const at::Tensor& bytes) override {
    std::unique_lock lock(mutex_);
    const at::Tensor copy = copies_.at(slot);
    lock.unlock();
    bytes.copy_(copy);
  }

  void release(Slot slot) override {
    std::lock_guard lock(mutex_);
    copies_.erase(slot);
  }

 private:
  std::mutex mutex_;
  std::map<Slot, at::Tensor> copies_;
  Slot last_ = 0;
};

}  // namespace

std::shared_ptr<SwapMedium> make_file_medium(const std::string& folder) {
  return std::make_shared<FileMedium>(folder);
}

std::shared_ptr<SwapMedium> make_host_medium() {
  return std::make_shared<HostMedium>();
}

}  // namespace mindspeed::memory
