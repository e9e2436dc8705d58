// SPDX-License-Identifier: Apache-2.0
// The safetensors format: 8 bytes header length, a JSON header (name -> dtype, shape,
// data_offsets), then the data. https://github.com/huggingface/safetensors#format
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "export.h"

namespace mindspeed::train {

/// What was written: size and XXH64 checksum of the whole file.
struct FileSummary {
  uint64_t bytes = 0;
  uint64_t checksum = 0;
};

/// Writes tensors (any strides, any device), each aligned to its elements, and syncs the file to
/// disk. Throws std::runtime_error naming the file when it cannot be written, std::invalid_argument
/// for a dtype that the format does not have.
MINDSPEED_API FileSummary write_safetensors(
    const std::string& path,
    const std::map<std::string, at::Tensor>& tensors,
    const std::map<std::string, std::string>& metadata = {});

/// Size and checksum of a file as it is. Throws std::runtime_error when it cannot be read.
MINDSPEED_API FileSummary summarize_file(const std::string& path);

/// An open safetensors file; tensors are read when asked for.
class MINDSPEED_API SafetensorsFile {
 public:
  struct Entry {
    at::ScalarType dtype;
    std::vector<int64_t> shape;
    uint64_t begin;  // bytes from the start of the file
    uint64_t end;
  };

  /// Validates the header: its length, every dtype, shape and offset, and that data and file end
  /// together. Throws std::runtime_error saying file, what was expected and what was found.
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::map<std::string, Entry>& entries() const { return entries_; }

  /// The whole tensor, on the CPU. Throws std::runtime_error for a name that is not there.
  at::Tensor read(const std::string& name) const;

  /// Rows [start, start + length) along dim 0.
  at::Tensor read_rows(const std::string& name, int64_t start, int64_t length) const;

 private:
  const Entry& entry(const std::string& name) const;
  void read_bytes(void* to, uint64_t offset, uint64_t bytes) const;

  std::string path_;
  int descriptor_ = -1;
  std::map<std::string, Entry> entries_;
};

}  // namespace mindspeed::train
