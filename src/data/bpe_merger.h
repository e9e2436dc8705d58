// SPDX-License-Identifier: Apache-2.0
// Byte pair encoding of one word: as long as neighbours merge, the pair with the lowest rank does,
// the leftmost of equals.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/pair_table.h"
#include "data/vocabulary.h"

namespace mindspeed::data {

class BpeMerger {
 public:
  // Of a byte or character BPE vocabulary, which must outlive this. Throws Error if a byte has no
  // token (byte BPE).
  explicit BpeMerger(const Vocabulary& vocabulary);

  struct Result {
    size_t num_ids;
    bool same_in_words;  // whether it is so for the word alone and for a piece of a longer one
  };

  // Writes the ids of a word, or of a piece cut off a longer one, to `out`, which has room for one
  // a byte. They differ where merges are ignored: only a whole word is taken for its token.
  Result merge(std::string_view word, bool is_piece, uint32_t* out) const;

 private:
  size_t merge_symbols(std::string_view word, uint32_t* out) const;
  size_t first_symbols(std::string_view word, uint32_t* out) const;
  size_t merge_short(uint32_t* symbols, size_t count) const;
  size_t merge_long(uint32_t* symbols, size_t count) const;

  bool characters_;
  std::vector<uint32_t> first_ids_;  // by byte or by code point
  const std::vector<uint32_t>& byte_ids_;
  uint32_t unknown_;
  PairTable merges_;
  struct WholeWord {
    uint32_t id;
    bool by_merges;  // merging makes it too
  };
  std::unordered_map<std::string_view, WholeWord> whole_words_;  // when merges are ignored
};

}  // namespace mindspeed::data
