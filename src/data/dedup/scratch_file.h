// SPDX-License-Identifier: Apache-2.0
// Files without a name for what does not fit in memory: gone with the process, however it ends.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace mindspeed::data {

class ScratchFile {
 public:
  // In `folder`, which is made if missing. Throws Error if the disk refuses, here and below.
  explicit ScratchFile(const std::filesystem::path& folder);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  // Where the bytes begin. Several threads may append at a time.
  uint64_t append(const void* data, size_t num_bytes);
  void read(uint64_t offset, void* data, size_t num_bytes) const;
  void resize(uint64_t num_bytes);  // what is new is zero
  uint64_t size() const { return size_; }

  // The whole file as memory, which the system may drop to the disk at any time. Once, after the
  // last append or resize; valid as long as this.
  template <typename T>
  std::span<T> map() {
    return {static_cast<T*>(map_bytes()), size_t(size_ / sizeof(T))};
  }

 private:
  void* map_bytes();
  [[noreturn]] void fail(const char* doing) const;

  std::filesystem::path folder_;
  int descriptor_ = -1;
  std::atomic<uint64_t> size_{0};
  void* mapped_ = nullptr;
  uint64_t mapped_bytes_ = 0;
};

}  // namespace mindspeed::data
