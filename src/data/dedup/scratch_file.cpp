// SPDX-License-Identifier: Apache-2.0
#include "data/dedup/scratch_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "data/error.h"

namespace mindspeed::data {

ScratchFile::ScratchFile(const std::filesystem::path& folder) : folder_(folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::string name = (folder / "scratch.XXXXXX").string();
  descriptor_ = error ? -1 : ::mkstemp(name.data());
  if (descriptor_ < 0) fail("create");
  ::unlink(name.c_str());
}

ScratchFile::~ScratchFile() {
  if (mapped_) ::munmap(mapped_, mapped_bytes_);
  ::close(descriptor_);
}

void ScratchFile::fail(const char* doing) const {
  throw Error(
      folder_.string() + ": cannot " + doing + " a scratch file there: " + std::strerror(errno) +
      "; free the disk, or choose another folder (--scratch-folder)");
}

uint64_t ScratchFile::append(const void* data, size_t num_bytes) {
  const uint64_t start = size_.fetch_add(num_bytes);
  const char* bytes = static_cast<const char*>(data);
  for (size_t done = 0; done < num_bytes;) {
    const ssize_t written =
        ::pwrite(descriptor_, bytes + done, num_bytes - done, off_t(start + done));
    if (written < 0 && errno != EINTR) fail("write");
    if (written > 0) done += size_t(written);
  }
  return start;
}

void ScratchFile::read(uint64_t offset, void* data, size_t num_bytes) const {
  char* bytes = static_cast<char*>(data);
  for (size_t done = 0; done < num_bytes;) {
    const ssize_t count =
        ::pread(descriptor_, bytes + done, num_bytes - done, off_t(offset + done));
    if (count == 0 || (count < 0 && errno != EINTR)) fail("read");
    if (count > 0) done += size_t(count);
  }
}

void ScratchFile::resize(uint64_t num_bytes) {
  // Space is taken at once: a full disk is an error here, not a SIGBUS later.
  if (num_bytes > 0) {
    const int code = ::posix_fallocate(descriptor_, 0, off_t(num_bytes));
    errno = code;
    if (code != 0) fail("extend");
  }
  size_ = num_bytes;
}

void* ScratchFile::map_bytes() {
  if (size_ == 0 || mapped_) return mapped_;
  void* mapped = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (mapped == MAP_FAILED) fail("map");
  mapped_ = mapped;
  mapped_bytes_ = size_;
  return mapped_;
}

}  // namespace mindspeed::data
