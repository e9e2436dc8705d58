// SPDX-License-Identifier: Apache-2.0
// What SentencePiece does to text before it is cut: replacement of characters by the map in the
// model file, spaces at the borders and in runs, the space put before the text.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mindspeed::data {

enum class SpaceBeforeText {
  kNever,
  kAlways,
  kUnlessThere,       // only if the text does not begin with one
  kFirstUnlessThere,  // so, and not after an added token
};

struct SentencePieceNormalizer {
  SpaceBeforeText space_before_text = SpaceBeforeText::kNever;
  bool remove_extra_whitespaces = false;
  std::vector<uint32_t> map_trie;  // Darts double array over UTF-8; empty: no map
  std::string map_values;          // what the trie's values point into, each ends with NUL

  // Takes the map apart as the model file holds it ("precompiled_charsmap"); false if it is broken.
  bool set_map(std::string_view precompiled);

  // Writes the normal form of `text` over `out`. Invalid bytes become U+FFFD; U+2581 stays.
  void normalize(std::string_view text, bool at_start, std::string& out) const;

 private:
  struct Prefix {
    std::string_view replacement;
    size_t num_bytes;  // of the text it stands for
  };
  Prefix normalize_prefix(std::string_view text) const;
  void normalize_slowly(std::string_view text, std::string& out) const;
};

}  // namespace mindspeed::data
