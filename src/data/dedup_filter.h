// SPDX-License-Identifier: Apache-2.0
// Deduplication as a filter of the reading pass. It is in the chain twice: first every document
// goes by and is kept, then decide() is called, then the repeated ones are dropped.
#pragma once
#include "data/dedup/document_dedup.h"
#include "data/document_filter.h"

namespace mindspeed::data {

class DedupFilter : public DocumentFilter {
 public:
  explicit DedupFilter(const DocumentDedupOptions& options) : dedup_(options) {}

  DocumentDedupCounts decide() {
    const DocumentDedupCounts counts = dedup_.decide();
    decided_ = true;
    return counts;
  }

  std::string apply(uint32_t file, uint64_t offset, std::string& text) override {
    if (!decided_) {
      dedup_.add(file, offset, text);
      return {};
    }
    switch (dedup_.find(file, offset)) {
      case Likeness::kExact:
        return "exact duplicate";
      case Likeness::kNear:
        return "near duplicate";
      case Likeness::kNone:
        break;
    }
    return {};
  }

 private:
  DocumentDedup dedup_;
  bool decided_ = false;
};

}  // namespace mindspeed::data
