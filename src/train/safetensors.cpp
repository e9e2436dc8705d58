// SPDX-License-Identifier: Apache-2.0
#include "train/safetensors.h"

#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mindspeed::train {
namespace {

using nlohmann::json;

struct DtypeName {
  at::ScalarType dtype;
  const char* name;
};
constexpr std::array<DtypeName, 18> kDtypes = {{
    {at::kDouble, "F64"},
    {at::kFloat, "F32"},
    {at::kHalf, "F16"},
    {at::kBFloat16, "BF16"},
    {at::kLong, "I64"},
    {at::kInt, "I32"},
    {at::kShort, "I16"},
    {at::kChar, "I8"},
    {at::kByte, "U8"},
    {at::kBool, "BOOL"},
    {at::kUInt64, "U64"},
    {at::kUInt32, "U32"},
    {at::kUInt16, "U16"},
    {at::kComplexFloat, "C64"},
    {at::kFloat8_e4m3fn, "F8_E4M3"},
    {at::kFloat8_e4m3fnuz, "F8_E4M3FNUZ"},
    {at::kFloat8_e5m2, "F8_E5M2"},
    {at::kFloat8_e5m2fnuz, "F8_E5M2FNUZ"},
}};

constexpr uint64_t kMostHeaderBytes = 100'000'000;  // the format's own bound

const char* dtype_name(at::ScalarType dtype, const std::string& tensor) {
  for (const auto& entry : kDtypes) {
    if (entry.dtype == dtype) return entry.name;
  }
  throw std::invalid_argument(
      tensor + ": dtype " + c10::toString(dtype) + " cannot be saved as safetensors");
}

std::string system_error() {
  return std::strerror(errno);
}

// Widest elements first, then by name: every tensor starts at a multiple of its element's size.
std::vector<std::pair<std::string, at::Tensor>> in_file_order(
    const std::map<std::string, at::Tensor>& tensors) {
  std::vector<std::pair<std::string, at::Tensor>> order(tensors.begin(), tensors.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.second.element_size() > b.second.element_size();
  });
  return order;
}

// Closes (and on failure leaves to the caller to delete) a file being written; keeps the checksum.
class FileWriter {
 public:
  explicit FileWriter(std::string path) : path_(std::move(path)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor_ < 0) fail();
    XXH64_reset(&hash_, 0);
  }
  ~FileWriter() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* data, uint64_t bytes) {
    XXH64_update(&hash_, data, bytes);
    size_ += bytes;
    const char* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = ::write(descriptor_, from, std::min<uint64_t>(bytes, 1 << 30));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail();
      from += written;
      bytes -= static_cast<uint64_t>(written);
    }
  }

  FileSummary finish() {
    if (::fsync(descriptor_) != 0) fail();
    const int descriptor = std::exchange(descriptor_, -1);
    if (::close(descriptor) != 0) fail();
    return {size_, XXH64_digest(&hash_)};
  }

 private:
  [[noreturn]] void fail() const {
    throw std::runtime_error(path_ + ": cannot be written: " + system_error());
  }

  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  XXH64_state_t hash_;
};

int open_to_read(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw std::runtime_error(path + ": cannot be read: " + system_error());
  return descriptor;
}

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw std::runtime_error(path + ": not a whole safetensors file: " + what);
}

// One header entry, checked against the size of the data section.
SafetensorsFile::Entry parse_entry(
    const std::string& path,
    const std::string& name,
    const json& value,
    uint64_t data_begin,
    uint64_t data_bytes) {
  try {
    const auto dtype_text = value.at("dtype").get<std::string>();
    const auto* dtype = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const DtypeName& entry) {
      return dtype_text == entry.name;
    });
    if (dtype == kDtypes.end()) refuse(path, name + " has the unknown dtype " + dtype_text);
    for (const char* key : {"shape", "data_offsets"}) {
      for (const json& number : value.at(key)) {
        if (!number.is_number_integer()) {
          refuse(
              path, name + ": " + key + " must hold whole numbers, found " + value.at(key).dump());
        }
      }
    }
    SafetensorsFile::Entry entry{dtype->dtype, value.at("shape").get<std::vector<int64_t>>(), 0, 0};
    uint64_t bytes = c10::elementSize(dtype->dtype);
    for (int64_t size : entry.shape) {
      if (size < 0 || (size > 0 && bytes > data_bytes / static_cast<uint64_t>(size) + 1)) {
        refuse(path, name + " has the impossible shape " + value.at("shape").dump());
      }
      bytes *= static_cast<uint64_t>(size);
    }
    const auto offsets = value.at("data_offsets").get<std::array<uint64_t, 2>>();
    if (offsets[1] < offsets[0] || offsets[1] > data_bytes || offsets[1] - offsets[0] != bytes) {
      refuse(
          path,
          name + " needs " + std::to_string(bytes) + " bytes, its offsets are " +
              value.at("data_offsets").dump() + " of " + std::to_string(data_bytes));
    }
    entry.begin = data_begin + offsets[0];
    entry.end = data_begin + offsets[1];
    return entry;
  } catch (const json::exception& error) {
    refuse(path, name + ": " + error.what());
  }
}

// Data must be covered without gaps or overlaps.
void check_coverage(
    const std::string& path,
    const std::map<std::string, SafetensorsFile::Entry>& entries,
    uint64_t begin,
    uint64_t end) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const auto& [name, entry] : entries) ranges.emplace_back(entry.begin, entry.end);
  std::sort(ranges.begin(), ranges.end());
  uint64_t at = begin;
  for (const auto& [from, to] : ranges) {
    if (from != at)
      refuse(path, "data offsets overlap or leave a gap at byte " + std::to_string(at));
    at = to;
  }
  if (at != end) {
    refuse(path, "expected " + std::to_string(at) + " bytes, found " + std::to_string(end));
  }
}

}  // namespace

FileSummary write_safetensors(
    const std::string& path,
    const std::map<std::string, at::Tensor>& tensors,
    const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  const auto order = in_file_order(tensors);
  uint64_t offset = 0;
  for (const auto& [name, tensor] : order) {
    const uint64_t bytes = tensor.nbytes();
    header[name] = {
        {"dtype", dtype_name(tensor.scalar_type(), name)},
        {"shape", tensor.sizes().vec()},
        {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts aligned
  FileWriter file(path);
  const uint64_t length = text.size();
  file.write(&length, sizeof(length));
  file.write(text.data(), text.size());
  for (const auto& [name, tensor] : order) {
    const at::Tensor dense = tensor.detach().to(at::kCPU).contiguous();
    file.write(dense.const_data_ptr(), dense.nbytes());
  }
  return file.finish();
}

FileSummary summarize_file(const std::string& path) {
  const int descriptor = open_to_read(path);
  XXH64_state_t hash;
  XXH64_reset(&hash, 0);
  FileSummary summary;
  std::vector<char> buffer(1 << 22);
  ssize_t count = 0;
  while ((count = ::read(descriptor, buffer.data(), buffer.size())) > 0) {
    XXH64_update(&hash, buffer.data(), static_cast<size_t>(count));
    summary.bytes += static_cast<uint64_t>(count);
  }
  const std::string error = system_error();
  ::close(descriptor);
  if (count < 0) throw std::runtime_error(path + ": cannot be read: " + error);
  summary.checksum = XXH64_digest(&hash);
  return summary;
}

SafetensorsFile::SafetensorsFile(const std::string& path)
    : path_(path), descriptor_(open_to_read(path)) {
  try {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0)
      throw std::runtime_error(path + ": cannot be read: " + system_error());
    const auto file_bytes = static_cast<uint64_t>(status.st_size);
    uint64_t header_bytes = 0;
    if (file_bytes < sizeof(header_bytes))
      refuse(path, "it has only " + std::to_string(file_bytes) + " bytes");
    read_bytes(&header_bytes, 0, sizeof(header_bytes));
    if (header_bytes > kMostHeaderBytes || header_bytes > file_bytes - sizeof(header_bytes)) {
      refuse(
          path,
          "the header claims " + std::to_string(header_bytes) + " bytes, the file has " +
              std::to_string(file_bytes));
    }
    std::string text(header_bytes, '\0');
    read_bytes(text.data(), sizeof(header_bytes), header_bytes);
    const json header = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!header.is_object()) refuse(path, "the header is not a JSON object");
    const uint64_t begin = sizeof(header_bytes) + header_bytes;
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") continue;
      entries_.emplace(name, parse_entry(path, name, value, begin, file_bytes - begin));
    }
    check_coverage(path, entries_, begin, file_bytes);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  ::close(descriptor_);
}

const SafetensorsFile::Entry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw std::runtime_error(path_ + ": holds no tensor " + name);
  return found->second;
}

void SafetensorsFile::read_bytes(void* to, uint64_t offset, uint64_t bytes) const {
  char* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t count =
        ::pread(descriptor_, at, std::min<uint64_t>(bytes, 1 << 30), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw std::runtime_error(path_ + ": cannot be read: " + system_error());
    if (count == 0) refuse(path_, "it ends at byte " + std::to_string(offset));
    at += count;
    offset += static_cast<uint64_t>(count);
    bytes -= static_cast<uint64_t>(count);
  }
}

at::Tensor SafetensorsFile::read(const std::string& name) const {
  const Entry& found = entry(name);
  at::Tensor tensor = at::empty(found.shape, found.dtype);
  read_bytes(tensor.mutable_data_ptr(), found.begin, found.end - found.begin);
  return tensor;
}

at::Tensor SafetensorsFile::read_rows(
    const std::string& name, int64_t start, int64_t length) const {
  const Entry& found = entry(name);
  const bool fits =
      !found.shape.empty() && start >= 0 && length >= 0 && start + length <= found.shape[0];
  if (!fits) {
    throw std::runtime_error(
        path_ + ": " + name + " has no rows " + std::to_string(start) + " to " +
        std::to_string(start + length));
  }
  std::vector<int64_t> shape = found.shape;
  const uint64_t row_bytes =
      found.shape[0] == 0 ? 0 : (found.end - found.begin) / static_cast<uint64_t>(found.shape[0]);
  shape[0] = length;
  at::Tensor tensor = at::empty(shape, found.dtype);
  read_bytes(
      tensor.mutable_data_ptr(),
      found.begin + row_bytes * static_cast<uint64_t>(start),
      tensor.nbytes());
  return tensor;
}

}  // namespace mindspeed::train
