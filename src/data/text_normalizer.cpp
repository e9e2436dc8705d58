// SPDX-License-Identifier: Apache-2.0
// The map is a trie in Darts-clone's layout: a unit holds label, offset and whether a value follows
// (https://github.com/s-yata/darts-clone).
#include "data/text_normalizer.h"

#include <cstring>

#include "data/utf8.h"

namespace mindspeed::data {
namespace {

constexpr std::string_view kReplacementBytes = "\xEF\xBF\xBD";

bool has_value(uint32_t unit) {
  return (unit >> 8) & 1;
}
uint32_t value(uint32_t unit) {
  return unit & 0x7FFFFFFF;
}
uint32_t label(uint32_t unit) {
  return unit & 0x800000FF;
}
uint32_t offset(uint32_t unit) {
  return (unit >> 10) << ((unit & 0x200) >> 6);
}

bool begins_with_space(std::string_view text) {
  return text.starts_with(' ') || text.starts_with("\xE2\x96\x81");
}

}  // namespace

bool SentencePieceNormalizer::set_map(std::string_view precompiled) {
  uint32_t trie_bytes;
  if (precompiled.size() < sizeof trie_bytes) return false;
  std::memcpy(&trie_bytes, precompiled.data(), sizeof trie_bytes);
  precompiled.remove_prefix(sizeof trie_bytes);
  if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes >= precompiled.size()) return false;
  map_trie.resize(trie_bytes / 4);
  std::memcpy(map_trie.data(), precompiled.data(), trie_bytes);
  map_values = precompiled.substr(trie_bytes);
  return map_values.back() == '\0';
}

SentencePieceNormalizer::Prefix SentencePieceNormalizer::normalize_prefix(
    std::string_view text) const {
  Prefix longest{{}, 0};
  if (!map_trie.empty()) {
    uint32_t at = offset(map_trie[0]);
    for (size_t i = 0; i < text.size(); ++i) {
      at ^= uint8_t(text[i]);
      if (at >= map_trie.size() || label(map_trie[at]) != uint8_t(text[i])) break;
      const uint32_t unit = map_trie[at];
      at ^= offset(unit);
      if (at >= map_trie.size()) break;
      if (has_value(unit) && value(map_trie[at]) < map_values.size()) {
        longest = {map_values.data() + value(map_trie[at]), i + 1};
      }
    }
  }
  if (longest.num_bytes > 0) return longest;
  const auto c = decode_utf8(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  if (!c.valid) return {kReplacementBytes, 1};
  return {text.substr(0, c.num_bytes), c.num_bytes};
}

void SentencePieceNormalizer::normalize_slowly(std::string_view text, std::string& out) const {
  bool after_space = remove_extra_whitespaces;
  while (!text.empty()) {
    auto [replacement, num_bytes] = normalize_prefix(text);
    while (after_space && replacement.starts_with(' ')) replacement.remove_prefix(1);
    if (!replacement.empty()) {
      out += replacement;
      after_space = remove_extra_whitespaces && replacement.ends_with(' ');
    }
    text.remove_prefix(num_bytes);
  }
}

void SentencePieceNormalizer::normalize(
    std::string_view text, bool at_start, std::string& out) const {
  out.clear();
  if (remove_extra_whitespaces) {
    while (!text.empty()) {
      const Prefix prefix = normalize_prefix(text);
      if (prefix.replacement != " ") break;
      text.remove_prefix(prefix.num_bytes);
    }
  }
  if (text.empty()) return;
  const bool unless_there = space_before_text == SpaceBeforeText::kUnlessThere ||
                            (space_before_text == SpaceBeforeText::kFirstUnlessThere && at_start);
  if (space_before_text == SpaceBeforeText::kAlways || (unless_there && !begins_with_space(text))) {
    out += ' ';
  }
  if (map_trie.empty() && !remove_extra_whitespaces && find_invalid_utf8(text) == text.size()) {
    out += text;
  } else {
    normalize_slowly(text, out);
  }
  if (remove_extra_whitespaces) {
    while (out.ends_with(' ')) out.pop_back();
  }
}

}  // namespace mindspeed::data
