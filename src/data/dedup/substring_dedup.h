// SPDX-License-Identifier: Apache-2.0
// Passages that repeat: every run of `min_bytes` bytes that stood before, in this document or an
// earlier one in the order of (file, offset), is cut out; the first occurrence stays. Found by
// suffix arrays of blocks of the text (libdivsufsort), which lie on disk and are merged. The result
// does not depend on threads, memory or the order of adding.
// Lee et al. (2021), Deduplicating training data makes language models better.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace mindspeed::data {

struct SubstringDedupOptions {
  uint32_t min_bytes = 200;
  // Of suffix arrays and sorters; the text itself lies in scratch files.
  size_t memory_bytes = size_t(256) << 20;
  int threads = 1;  // of decide()
  std::filesystem::path scratch_folder = {};
};

struct SubstringDedupCounts {
  uint64_t documents = 0, bytes = 0;                  // all that were added
  uint64_t changed_documents = 0, removed_bytes = 0;  // before cuts retreat to whole characters
};

class SubstringDedup {
 public:
  // Throws Error for less than 8 bytes, or no thread.
  explicit SubstringDedup(const SubstringDedupOptions& options);
  ~SubstringDedup();
  SubstringDedup(const SubstringDedup&) = delete;
  SubstringDedup& operator=(const SubstringDedup&) = delete;

  // First every document, once each; several threads at a time.
  void add(uint32_t file, uint64_t offset, std::string_view text);

  // Then once.
  SubstringDedupCounts decide();

  // Then, from several threads: cuts out of the document's text what repeats; true if anything
  // did. UTF-8 characters stay whole.
  bool cut(uint32_t file, uint64_t offset, std::string& text) const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace mindspeed::data
