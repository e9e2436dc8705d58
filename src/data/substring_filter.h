// SPDX-License-Identifier: Apache-2.0
// Substring deduplication as a filter of the reading pass, in the chain twice as DedupFilter is.
#pragma once
#include "data/dedup/substring_dedup.h"
#include "data/document_filter.h"

namespace mindspeed::data {

class SubstringFilter : public DocumentFilter {
 public:
  explicit SubstringFilter(const SubstringDedupOptions& options) : dedup_(options) {}

  SubstringDedupCounts decide() {
    const SubstringDedupCounts counts = dedup_.decide();
    decided_ = true;
    return counts;
  }

  std::string apply(uint32_t file, uint64_t offset, std::string& text) override {
    if (!decided_) {
      dedup_.add(file, offset, text);
      return {};
    }
    const bool changed = dedup_.cut(file, offset, text);
    const bool blank = text.find_first_not_of(" \t\r\n") == text.npos;
    return changed && blank ? "all of it repeats earlier passages" : "";
  }

 private:
  SubstringDedup dedup_;
  bool decided_ = false;
};

}  // namespace mindspeed::data
