// SPDX-License-Identifier: Apache-2.0
// Writing streams both files: lengths go out as documents come, offsets and documents follow at the
// end.
#include "data/indexed_dataset.h"

#include <fcntl.h>
#include <simdjson.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "data/error.h"

namespace mindspeed::data {
namespace {

constexpr char kMagic[] = "MMIDIDX\0";  // with the literal's own end: 9 bytes
constexpr size_t kHeaderBytes = 34;
constexpr uint64_t kVersion = 1;

uint64_t size_of(TokenType type) {
  switch (type) {
    case TokenType::kUint8:
    case TokenType::kInt8:
      return 1;
    case TokenType::kInt16:
    case TokenType::kUint16:
      return 2;
    case TokenType::kInt32:
      return 4;
    case TokenType::kInt64:
      return 8;
  }
  return 0;
}

std::filesystem::path with_suffix(std::filesystem::path prefix, const char* suffix) {
  return prefix += suffix;
}

template <typename T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void widen(const uint8_t* from, size_t count, int64_t* to) {
  for (size_t i = 0; i < count; ++i) {
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): int8 ids are signed numbers
    to[i] = load<T>(from + i * sizeof(T));
  }
}

template <typename T>
void store_as(std::span<const uint32_t> ids, std::vector<uint8_t>& bytes) {
  bytes.resize(ids.size() * sizeof(T));
  for (size_t i = 0; i < ids.size(); ++i) {
    const T id = T(ids[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &id, sizeof id);
  }
}

}  // namespace

TokenType token_type_for(size_t vocab_size) {
  return vocab_size < 65500 ? TokenType::kUint16 : TokenType::kInt32;
}

IndexedDatasetWriter::IndexedDatasetWriter(const std::filesystem::path& prefix, TokenType type)
    : prefix_(prefix),
      type_(type),
      tokens_(with_suffix(prefix, ".bin")),
      index_(with_suffix(prefix, ".idx")) {
  if (type != TokenType::kUint16 && type != TokenType::kInt32) {
    throw Error("IndexedDatasetWriter: token type must be uint16 or int32");
  }
  const uint8_t header[kHeaderBytes] = {};
  index_.write(header, sizeof header);
}

void IndexedDatasetWriter::add_document(std::span<const uint32_t> ids) {
  if (ids.size() > INT32_MAX) {
    throw Error(
        prefix_.string() + ": a document must have at most 2147483647 tokens, got " +
        std::to_string(ids.size()));
  }
  const uint64_t largest = ids.empty() ? 0 : *std::max_element(ids.begin(), ids.end());
  if (largest > (type_ == TokenType::kUint16 ? uint64_t(UINT16_MAX) : uint64_t(INT32_MAX))) {
    throw Error(
        prefix_.string() + ": token id " + std::to_string(largest) +
        " must fit the file's integers");
  }
  if (type_ == TokenType::kUint16) {
    store_as<uint16_t>(ids, narrow_);
  } else {
    store_as<int32_t>(ids, narrow_);
  }
  tokens_.write(narrow_.data(), narrow_.size());
  const auto length = int32_t(ids.size());
  index_.write(&length, sizeof length);
  ++summary_.num_documents;
  summary_.num_tokens += ids.size();
  summary_.largest_id = std::max(summary_.largest_id, largest);
}

void IndexedDatasetWriter::publish(size_t vocab_size, int64_t end_of_document) {
  const uint64_t n = summary_.num_documents, m = n + 1;
  summary_.vocab_size = vocab_size;
  summary_.end_of_document = end_of_document;
  uint8_t header[kHeaderBytes];
  std::memcpy(header, kMagic, 9);
  std::memcpy(header + 9, &kVersion, 8);
  header[17] = uint8_t(type_);
  std::memcpy(header + 18, &n, 8);
  std::memcpy(header + 26, &m, 8);
  index_.overwrite(0, header, sizeof header);
  int64_t offset = 0;
  std::vector<int32_t> lengths;
  std::vector<int64_t> offsets;
  for (uint64_t done = 0; done < n; done += lengths.size()) {
    lengths.resize(std::min<uint64_t>(n - done, 1 << 16));
    index_.read_back(kHeaderBytes + 4 * done, lengths.data(), 4 * lengths.size());
    offsets.clear();
    for (const int32_t length : lengths) {
      offsets.push_back(offset);
      offset += int64_t(length) * int64_t(size_of(type_));
    }
    index_.write(offsets.data(), 8 * offsets.size());
  }
  if (uint64_t(offset) != tokens_.size()) {
    throw Error(
        prefix_.string() + ": lengths and tokens written must agree (a fault of this program)");
  }
  for (uint64_t document = 0; document < m; ++document) index_.write(&document, sizeof document);

  OutputFile json(with_suffix(prefix_, ".json"));
  json.write(
      "{\"documents\": " + std::to_string(n) +
      ", \"tokens\": " + std::to_string(summary_.num_tokens) + ", \"largest_id\": " +
      std::to_string(summary_.largest_id) + ", \"vocab_size\": " + std::to_string(vocab_size) +
      ", \"end_of_document\": " + std::to_string(end_of_document) + "}\n");
  tokens_.sync();
  index_.sync();
  json.sync();
  for (const char* suffix : {".idx", ".json"}) {
    std::filesystem::remove(with_suffix(prefix_, suffix));
  }
  tokens_.publish();
  json.publish();
  index_.publish();
}

// A whole file, read-only in memory.
class IndexedDataset::Mapping {
 public:
  explicit Mapping(const std::filesystem::path& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
      throw Error(
          path.string() + ": cannot open the token file: " + std::strerror(errno) +
          "; `mindspeed preprocess` makes it");
    }
    struct stat status;
    const bool known = ::fstat(descriptor, &status) == 0;
    size_ = known ? uint64_t(status.st_size) : 0;
    if (size_ > 0) {
      void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
      data_ = mapped == MAP_FAILED ? nullptr : static_cast<const uint8_t*>(mapped);
    }
    const int code = errno;
    ::close(descriptor);
    if (!known || (size_ > 0 && !data_)) {
      throw Error(path.string() + ": cannot map the token file: " + std::strerror(code));
    }
  }
  ~Mapping() {
    if (data_) ::munmap(const_cast<uint8_t*>(data_), size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const uint8_t* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  const uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
};

IndexedDataset::IndexedDataset(const std::filesystem::path& prefix)
    : prefix_(prefix.string()),
      index_(std::make_shared<Mapping>(with_suffix(prefix, ".idx"))),
      tokens_(std::make_shared<Mapping>(with_suffix(prefix, ".bin"))) {
  const uint8_t* header = index_->data();
  if (index_->size() < kHeaderBytes || std::memcmp(header, kMagic, 9) != 0) {
    fail("the .idx file must begin with Megatron's header MMIDIDX");
  }
  if (const auto version = load<uint64_t>(header + 9); version != kVersion) {
    fail("the .idx file's version must be 1, got " + std::to_string(version));
  }
  type_ = TokenType(header[17]);
  token_bytes_ = size_of(type_);
  if (token_bytes_ == 0) {
    fail(
        "the .idx file's dtype must be a whole-number type, got code " +
        std::to_string(header[17]));
  }
  num_sequences_ = load<uint64_t>(header + 18);
  const auto document_entries = load<uint64_t>(header + 26);
  const uint64_t most =
      index_->size() / 4;  // no count can be larger; keeps the sum below from wrapping
  if (num_sequences_ > most || document_entries > most || document_entries == 0 ||
      index_->size() != kHeaderBytes + 12 * num_sequences_ + 8 * document_entries) {
    fail(
        "the .idx file's size must fit its counts (" + std::to_string(num_sequences_) +
        " sequences, " + std::to_string(document_entries) + " document entries), got " +
        std::to_string(index_->size()) + " bytes; the file is truncated or corrupt, make it again");
  }
  num_documents_ = document_entries - 1;
  if (tokens_->size() % token_bytes_ != 0) {
    fail(
        "the .bin file's size must be a multiple of " + std::to_string(token_bytes_) +
        " bytes, got " + std::to_string(tokens_->size()));
  }
  num_tokens_ = tokens_->size() / token_bytes_;
  check_offsets();
}

void IndexedDataset::fail(const std::string& what) const {
  throw Error(prefix_ + ": " + what);
}

void IndexedDataset::check_offsets() const {
  const uint8_t* lengths = index_->data() + kHeaderBytes;
  const uint8_t* offsets = lengths + 4 * num_sequences_;
  const uint8_t* documents = offsets + 8 * num_sequences_;
  uint64_t expected = 0;
  for (uint64_t i = 0; i < num_sequences_; ++i) {
    const auto length = load<int32_t>(lengths + 4 * i);
    if (length < 0 || load<uint64_t>(offsets + 8 * i) != expected) {
      fail(
          "sequence " + std::to_string(i) +
          " must begin where the one before ends; the .idx file is corrupt");
    }
    expected += uint64_t(length) * token_bytes_;
  }
  if (expected != tokens_->size()) {
    fail(
        "the .bin file must have the " + std::to_string(expected) +
        " bytes that the .idx file says, got " + std::to_string(tokens_->size()) +
        "; it is truncated or of another run, make it again");
  }
  uint64_t previous = 0;
  for (uint64_t i = 0; i <= num_documents_; ++i) {
    const auto document = load<uint64_t>(documents + 8 * i);
    if (document < previous || (i == 0 && document != 0)) {
      fail(
          "document " + std::to_string(i) +
          " must not begin before the one before; the .idx file is corrupt");
    }
    previous = document;
  }
  if (previous != num_sequences_) {
    fail("the last document must end at the last sequence; the .idx file is corrupt");
  }
}

uint64_t IndexedDataset::sequence_start(uint64_t sequence) const {
  if (sequence == num_sequences_) return num_tokens_;
  const uint8_t* offsets = index_->data() + kHeaderBytes + 4 * num_sequences_;
  return load<uint64_t>(offsets + 8 * sequence) / token_bytes_;
}

uint64_t IndexedDataset::document_start(uint64_t document) const {
  const uint8_t* documents = index_->data() + kHeaderBytes + 12 * num_sequences_;
  return sequence_start(load<uint64_t>(documents + 8 * document));
}

uint64_t IndexedDataset::document_at(uint64_t position) const {
  uint64_t low = 0,
           high = num_documents_;  // document_start(low) <= position < document_start(high)
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    if (document_start(middle) <= position) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

void IndexedDataset::read(uint64_t start, size_t count, int64_t* out) const {
  if (start > num_tokens_ || count > num_tokens_ - start) {
    fail(
        "tokens " + std::to_string(start) + " + " + std::to_string(count) +
        " must lie within the " + std::to_string(num_tokens_) + " tokens");
  }
  const uint8_t* from = tokens_->data() + start * token_bytes_;
  switch (type_) {
    case TokenType::kUint8:
      return widen<uint8_t>(from, count, out);
    case TokenType::kInt8:
      return widen<int8_t>(from, count, out);
    case TokenType::kInt16:
      return widen<int16_t>(from, count, out);
    case TokenType::kInt32:
      return widen<int32_t>(from, count, out);
    case TokenType::kInt64:
      return widen<int64_t>(from, count, out);
    case TokenType::kUint16:
      return widen<uint16_t>(from, count, out);
  }
}

uint64_t IndexedDataset::largest_id() const {
  simdjson::dom::parser parser;
  simdjson::dom::element summary;
  uint64_t tokens, largest;
  if (!parser.load(prefix_ + ".json").get(summary) && !summary["tokens"].get(tokens) &&
      tokens == num_tokens_ && !summary["largest_id"].get(largest)) {
    return largest;
  }
  int64_t most = 0, part[4096];
  for (uint64_t start = 0; start < num_tokens_; start += std::size(part)) {
    const size_t count = std::min<uint64_t>(std::size(part), num_tokens_ - start);
    read(start, count, part);
    most = std::max(most, *std::max_element(part, part + count));
  }
  return uint64_t(most);
}

}  // namespace mindspeed::data
