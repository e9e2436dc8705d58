// SPDX-License-Identifier: Apache-2.0
// A file that appears under its name only when it is whole: written as NAME.partial (locked against
// a second writer), flushed to disk, then renamed. Destroyed before that, it leaves nothing behind.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace mindspeed::data {

class OutputFile {
 public:
  // Makes missing folders. Throws Error if the file cannot be written or is being written by
  // another process.
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, size_t num_bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // Replaces bytes already written.
  void overwrite(uint64_t offset, const void* data, size_t num_bytes);
  // Reads bytes already written.
  void read_back(uint64_t offset, void* data, size_t num_bytes);
  uint64_t size() const { return size_; }

  void sync();     // everything is on disk; may be called before publish to fail early
  void publish();  // syncs, renames, syncs the folder

  const std::filesystem::path& path() const { return path_; }

 private:
  void flush();
  [[noreturn]] void fail(const char* doing) const;

  std::filesystem::path path_, partial_;
  int descriptor_ = -1;
  uint64_t size_ = 0;  // including what is still in the buffer
  std::vector<char> buffer_;
};

}  // namespace mindspeed::data
