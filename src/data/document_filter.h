// SPDX-License-Identifier: Apache-2.0
// What stands between reading a document and encoding it: cleaning, deduplication.
#pragma once
#include <cstdint>
#include <string>

namespace mindspeed::data {

class DocumentFilter {
 public:
  virtual ~DocumentFilter() = default;
  /** Returns an empty string to keep the document (text may be rewritten), else the reason for
   * dropping it. Called from several threads. `offset` is where the document begins in its file. */
  virtual std::string apply(uint32_t file, uint64_t offset, std::string& text) = 0;
};

}  // namespace mindspeed::data
