// SPDX-License-Identifier: Apache-2.0
// From a record of the input to the texts of its keys, or the reason why it is rejected.
#pragma once
#include <simdjson.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/records.h"

namespace mindspeed::data {

class DocumentParser {
 public:
  explicit DocumentParser(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  // On success the result is empty and texts() holds one text for each key, valid until the next
  // call; else it says what is wrong. Plain text is the text of every key. May repair the record in
  // place.
  std::string parse(Chunk& chunk, const Record& record);

  const std::vector<std::string_view>& texts() const { return texts_; }
  uint64_t replaced_surrogates() const { return replaced_surrogates_; }

 private:
  std::string parse_json(char* json, size_t size);

  std::vector<std::string> keys_;
  std::vector<std::string_view> texts_;
  simdjson::dom::parser parser_;
  uint64_t replaced_surrogates_ = 0;
};

}  // namespace mindspeed::data
