// SPDX-License-Identifier: Apache-2.0
// Floats whose end is the end of readable memory: a read past them is a segmentation fault.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <stdexcept>

namespace mindspeed::simd {

class GuardedFloats {
 public:
  /// `size` floats, zero.
  explicit GuardedFloats(size_t size) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t body = (size * sizeof(float) + page - 1) / page * page;
    bytes_ = body + page;
    base_ = static_cast<char*>(
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + body, page, PROT_NONE) != 0)
      throw std::runtime_error("no memory with a guard page");
    data_ = reinterpret_cast<float*>(base_ + body) - size;
  }
  ~GuardedFloats() { munmap(base_, bytes_); }
  GuardedFloats(const GuardedFloats&) = delete;
  GuardedFloats& operator=(const GuardedFloats&) = delete;

  float* data() const { return data_; }

 private:
  char* base_;
  size_t bytes_;
  float* data_;
};

}  // namespace mindspeed::simd
