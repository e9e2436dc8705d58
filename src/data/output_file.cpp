// SPDX-License-Identifier: Apache-2.0
// Buffered writing, fsync, rename.
#include "data/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "data/error.h"

namespace mindspeed::data {
namespace {

constexpr size_t kBufferBytes = size_t(1) << 20;

bool write_all(int descriptor, const char* data, size_t num_bytes) {
  while (num_bytes > 0) {
    const ssize_t written = ::write(descriptor, data, num_bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    data += written;
    num_bytes -= size_t(written);
  }
  return true;
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)), partial_(path_) {
  partial_ += ".partial";
  if (path_.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(path_.parent_path(), error);
    if (error) {
      throw Error(
          path_.parent_path().string() +
          ": the output folder must be creatable: " + error.message());
    }
  }
  descriptor_ = ::open(partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("open");
  struct stat opened,
      named;  // differ when the other writer has just renamed the file that was opened
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 || ::fstat(descriptor_, &opened) != 0 ||
      ::stat(partial_.c_str(), &named) != 0 || opened.st_ino != named.st_ino) {
    ::close(descriptor_);
    throw Error(
        partial_.string() +
        ": another process is writing this file; wait for it or choose another output");
  }
  if (::ftruncate(descriptor_, 0) != 0) fail("truncate");
  buffer_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::unlink(partial_.c_str());
  ::close(descriptor_);
}

void OutputFile::fail(const char* doing) const {
  throw Error(path_.string() + ": cannot " + doing + " the file: " + std::strerror(errno));
}

void OutputFile::write(const void* data, size_t num_bytes) {
  size_ += num_bytes;
  if (buffer_.size() + num_bytes > kBufferBytes) flush();
  if (num_bytes > kBufferBytes) {
    if (!write_all(descriptor_, static_cast<const char*>(data), num_bytes)) fail("write");
    return;
  }
  const char* bytes = static_cast<const char*>(data);
  buffer_.insert(buffer_.end(), bytes, bytes + num_bytes);
}

void OutputFile::flush() {
  if (!write_all(descriptor_, buffer_.data(), buffer_.size())) fail("write");
  buffer_.clear();
}

void OutputFile::overwrite(uint64_t offset, const void* data, size_t num_bytes) {
  flush();
  if (::pwrite(descriptor_, data, num_bytes, off_t(offset)) != ssize_t(num_bytes)) fail("write");
}

void OutputFile::read_back(uint64_t offset, void* data, size_t num_bytes) {
  flush();
  if (::pread(descriptor_, data, num_bytes, off_t(offset)) != ssize_t(num_bytes)) fail("read back");
}

void OutputFile::sync() {
  flush();
  if (::fsync(descriptor_) != 0) fail("sync");
}

void OutputFile::publish() {
  sync();
  if (::rename(partial_.c_str(), path_.c_str()) != 0) fail("rename");
  ::close(descriptor_);
  descriptor_ = -1;
  const auto folder = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
  const int folder_descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_descriptor >= 0) {
    ::fsync(folder_descriptor);
    ::close(folder_descriptor);
  }
}

}  // namespace mindspeed::data
