// SPDX-License-Identifier: Apache-2.0
// simdjson checks the whole record: syntax, UTF-8, control characters in strings.
#include "data/document.h"

#include "data/json.h"
#include "data/utf8.h"

namespace mindspeed::data {

std::string DocumentParser::parse(Chunk& chunk, const Record& record) {
  if (record.too_long) {
    return "longer than the limit of " + std::to_string(record.size) +
           " bytes (--max-record-bytes)";
  }
  if (record.unfinished) return "the JSON array ends without its closing bracket";
  if (record.is_json) return parse_json(chunk.bytes.data() + record.offset, record.size);
  const std::string_view text = chunk.text(record);
  if (const size_t bad = find_invalid_utf8(text); bad < text.size()) {
    return "not valid UTF-8 at byte " + std::to_string(bad);
  }
  if (const size_t nul = text.find('\0'); nul != text.npos) {
    return "NUL byte at byte " + std::to_string(nul);
  }
  texts_.assign(keys_.size(), text);
  return {};
}

std::string DocumentParser::parse_json(char* json, size_t size) {
  simdjson::dom::element root;
  auto error = parser_.parse(json, size, false).get(root);
  if (error == simdjson::STRING_ERROR) {
    if (const uint64_t count = replace_lone_surrogates(json, size)) {
      error = parser_.parse(json, size, false).get(root);
      if (!error) replaced_surrogates_ += count;
    }
  }
  if (error == simdjson::UTF8_ERROR) return "not valid UTF-8";
  if (error) return std::string("not valid JSON: ") + simdjson::error_message(error);
  simdjson::dom::object object;
  if (root.get(object)) return "not a JSON object";
  texts_.clear();
  for (const std::string& key : keys_) {
    simdjson::dom::element value;
    if (object.at_key(key).get(value)) return "no key " + json_quote(key);
    std::string_view text;
    if (value.get(text)) return "key " + json_quote(key) + " is not a string";
    texts_.push_back(text);
  }
  return {};
}

}  // namespace mindspeed::data
