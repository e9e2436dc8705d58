// SPDX-License-Identifier: Apache-2.0
#include "memory/swap_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>

namespace mindspeed::memory {
namespace {

std::string gigabytes(size_t bytes) {
  std::ostringstream text;
  text.precision(3);
  text << static_cast<double>(bytes) / 1e9 << " GB";
  return text.str();
}

}  // namespace

SwapFile::SwapFile(const std::string& folder) : folder_(folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail("cannot be made", error.value());
  std::string name = (std::filesystem::path(folder) / ".mindspeed-swap-XXXXXX").string();
  descriptor_ = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0) fail("takes no file", errno);
  unlink(name.c_str());
}

SwapFile::~SwapFile() {
  close(descriptor_);
}

void SwapFile::reserve(int64_t bytes) {
  if (bytes == 0) return;
  const int error = posix_fallocate(descriptor_, 0, bytes);
  if (error != 0) fail("has no room for " + gigabytes(bytes), error);
}

void SwapFile::write(int64_t offset, const void* data, size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  for (size_t done = 0; done < bytes;) {
    const ssize_t step =
        pwrite(descriptor_, from + done, bytes - done, offset + static_cast<int64_t>(done));
    if (step < 0 && errno == EINTR) continue;
    if (step <= 0) {
      fail("takes no more after " + gigabytes(offset + done), step < 0 ? errno : ENOSPC);
    }
    done += static_cast<size_t>(step);
  }
}

void SwapFile::read(int64_t offset, void* data, size_t bytes) const {
  auto* to = static_cast<char*>(data);
  for (size_t done = 0; done < bytes;) {
    const ssize_t step =
        pread(descriptor_, to + done, bytes - done, offset + static_cast<int64_t>(done));
    if (step < 0 && errno == EINTR) continue;
    if (step <= 0) fail("does not give back what was written", step < 0 ? errno : EIO);
    done += static_cast<size_t>(step);
  }
}

void SwapFile::fail(const std::string& what, int error) const {
  throw SwapError(
      "memory.swap_folder (" + folder_ + ") " + what + ": " + std::strerror(error) +
      "; free space there, or set another folder");
}

}  // namespace mindspeed::memory
