// SPDX-License-Identifier: Apache-2.0
// Which neighbouring characters may end up in one token. Two that stand side by side in no token of
// the vocabulary are never merged across, so a text may be cut between them before merging: Chinese
// phrases, and SentencePiece texts, fall into pieces short enough for the word cache.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/utf8.h"

namespace mindspeed::data {

class TokenBorders {
 public:
  TokenBorders() : inside_(kBits / 64), partial_(256 * 256) {}

  // Every border between characters inside `token` may join from now on.
  void add_token(std::string_view token);

  // Ends of the pieces that follow one another from `start` of the text's first `size` bytes, as
  // many as `ends` has room for or there are; returns how many.
  size_t cut(const uint8_t* text, size_t size, size_t start, std::span<size_t> ends) const;

 private:
  // Pairs of whole characters are a set of hashes: a false hit only leaves a cut out.
  static constexpr size_t kBits = size_t(1) << 21;

  static size_t hash(char32_t left, char32_t right) {
    return ((uint64_t(left) << 32 | right) * 0x9E3779B97F4A7C15ull) >> 43;
  }
  bool may_join(DecodedCharacter left, DecodedCharacter right, const uint8_t* border) const {
    if (partial_[border[-1] * 256 + border[0]]) return true;
    if (!left.valid || !right.valid) return false;
    const size_t bit = hash(left.code, right.code);
    return (inside_[bit / 64] >> (bit % 64)) & 1;
  }

  std::vector<uint64_t> inside_;
  std::vector<uint8_t> partial_;  // (byte before, byte after) where one side is no whole character
};

}  // namespace mindspeed::data
