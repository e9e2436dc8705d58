// SPDX-License-Identifier: Apache-2.0
// Whole documents that repeat others: equal ones (128-bit xxh3 of the bytes), and on request nearly
// equal ones (min_hash.h). The first document in the order of (file, offset) stays. A document is
// dropped as near only for its likeness to one that is kept, so likeness is never passed on from
// one dropped document to the next. What does not fit `memory_bytes` lies in scratch files. The
// result does not depend on threads, nor on the order of adding, nor on memory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

namespace mindspeed::data {

struct DocumentDedupOptions {
  bool near = false;
  double near_threshold =
      0.8;  // of the Jaccard similarity of the shingles, as the signatures have it
  size_t memory_bytes = size_t(256) << 20;
  int threads = 1;  // of decide()
  std::filesystem::path scratch_folder = {};
};

struct DocumentDedupCounts {
  uint64_t documents = 0, bytes = 0;              // all that were added
  uint64_t exact_documents = 0, exact_bytes = 0;  // dropped
  uint64_t near_documents = 0, near_bytes = 0;    // dropped beside these
  uint64_t compared_pairs = 0;                    // candidates whose signatures were compared
  uint64_t clusters = 0, largest_cluster = 0;     // kept documents with copies; most copies of one
};

enum class Likeness : uint8_t { kNone, kExact, kNear };

class DocumentDedup {
 public:
  // Throws Error for a threshold outside (0, 1].
  explicit DocumentDedup(const DocumentDedupOptions& options);
  ~DocumentDedup();
  DocumentDedup(const DocumentDedup&) = delete;
  DocumentDedup& operator=(const DocumentDedup&) = delete;

  // First every document, once each; several threads at a time.
  void add(uint32_t file, uint64_t offset, std::string_view text);

  // Then once. Throws Error if a document was added twice.
  DocumentDedupCounts decide();

  // Then, from several threads: whether, and as what, this document is to be dropped.
  Likeness find(uint32_t file, uint64_t offset) const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace mindspeed::data
