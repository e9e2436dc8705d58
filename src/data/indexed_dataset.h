// SPDX-License-Identifier: Apache-2.0
// Token files in Megatron's layout. PREFIX.bin: token ids one after another, little-endian.
// PREFIX.idx: magic, version, dtype, counts, then for each sequence its length and byte offset,
// then the documents as ranges of sequences; unaligned. A sequence holds at most 2^31 - 1 tokens;
// offsets have 64 bits.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/output_file.h"

namespace mindspeed::data {

// Codes of the .idx file.
enum class TokenType : uint8_t {
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint16 = 8
};

// uint16 if ids stay below 65,500, else int32: Megatron's rule.
TokenType token_type_for(size_t vocab_size);

// What is known about the tokens when they are written; a third file, PREFIX.json, which readers
// may lack.
struct DatasetSummary {
  uint64_t num_documents = 0;
  uint64_t num_tokens = 0;
  uint64_t largest_id = 0;
  uint64_t vocab_size = 0;
  int64_t end_of_document = -1;
};

class IndexedDatasetWriter {
 public:
  IndexedDatasetWriter(const std::filesystem::path& prefix, TokenType type);

  // One document of one sequence.
  void add_document(std::span<const uint32_t> ids);

  // Writes the index and makes all files appear under their names, the .idx last. Files of an older
  // run under the same names go first, so that a pair never mixes two runs.
  void publish(size_t vocab_size, int64_t end_of_document);

  const DatasetSummary& summary() const { return summary_; }

 private:
  std::filesystem::path prefix_;
  TokenType type_;
  OutputFile tokens_, index_;
  DatasetSummary summary_;
  std::vector<uint8_t> narrow_;
};

class IndexedDataset {
 public:
  // Maps the files and checks header, sizes and every offset. Throws Error.
  explicit IndexedDataset(const std::filesystem::path& prefix);

  uint64_t num_tokens() const { return num_tokens_; }
  uint64_t num_sequences() const { return num_sequences_; }
  uint64_t num_documents() const { return num_documents_; }
  TokenType token_type() const { return type_; }
  const std::string& prefix() const { return prefix_; }

  // Position of a document's first token; num_tokens() for document num_documents().
  uint64_t document_start(uint64_t document) const;
  // The document that holds the token at `position`.
  uint64_t document_at(uint64_t position) const;
  // Widens tokens [start, start + count) into `out`.
  void read(uint64_t start, size_t count, int64_t* out) const;

  // Largest id: from PREFIX.json if it fits the files, else by reading all tokens.
  uint64_t largest_id() const;

 private:
  class Mapping;
  [[noreturn]] void fail(const std::string& what) const;
  void check_offsets() const;
  uint64_t sequence_start(uint64_t sequence) const;

  std::string prefix_;
  std::shared_ptr<const Mapping> index_, tokens_;
  TokenType type_{};
  uint64_t token_bytes_ = 0, num_tokens_ = 0, num_sequences_ = 0, num_documents_ = 0;
};

}  // namespace mindspeed::data
