// SPDX-License-Identifier: Apache-2.0
// A step between a document's text and its tokens: cleaning, filtering, deduplication.
#pragma once
#include <cstdint>
#include <string>

namespace mindspeed::data {

class DocumentFilter {
 public:
  virtual ~DocumentFilter() = default;

  /** Returns an empty string to keep the document (text may be rewritten), else the reason for
   *  dropping it. `file` is the number of the input file in the order of reading, `offset` where
   * the document begins in it (bytes after decompression; rows in Parquet). Called from several
   *  threads. Reasons are counted by what stands before their first ": ". */
  virtual std::string apply(uint32_t file, uint64_t offset, std::string& text) = 0;
};

}  // namespace mindspeed::data
