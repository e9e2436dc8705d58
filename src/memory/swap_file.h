// SPDX-License-Identifier: Apache-2.0
// Room on a disk for what does not have to lie in memory. The file has no name: it is unlinked as
// soon as it is open, so that nothing is left behind however the process ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "export.h"

namespace mindspeed::memory {

/// The folder of swapped bytes fails: full, not writable, not readable. One line, for people.
class MINDSPEED_API SwapError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class MINDSPEED_API SwapFile {
 public:
  /// Makes the folder where it is missing. Throws SwapError.
  explicit SwapFile(const std::string& folder);
  ~SwapFile();
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;

  /// Takes `bytes` of disk from the start of the file now, so that writing cannot fail later for
  /// want of it; they read as zeros. Throws SwapError.
  void reserve(int64_t bytes);

  /// All of the bytes, or SwapError.
  void write(int64_t offset, const void* data, size_t bytes);
  void read(int64_t offset, void* data, size_t bytes) const;

  int descriptor() const { return descriptor_; }

 private:
  [[noreturn]] void fail(const std::string& what, int error) const;

  std::string folder_;
  int descriptor_ = -1;
};

}  // namespace mindspeed::memory
