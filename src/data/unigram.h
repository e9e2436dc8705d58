// SPDX-License-Identifier: Apache-2.0
// The unigram model (Kudo 2018): of all ways to cut a text into tokens, the one with the largest
// sum of scores, found by dynamic programming over a trie of the tokens.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/pair_table.h"

namespace mindspeed::data {

class Unigram {
 public:
  struct Piece {
    std::string text;
    uint32_t id;
    float score;
  };

  // A character that is no piece costs `10` more than the worst piece.
  explicit Unigram(const std::vector<Piece>& pieces);

  struct Part {
    uint32_t id;  // kUnknownPart: a character that no piece spells
    uint32_t num_bytes;
  };
  static constexpr uint32_t kUnknownPart = UINT32_MAX;

  // The parts of `text`, which is valid UTF-8, one after another.
  void cut(std::string_view text, std::vector<Part>& parts) const;

 private:
  PairTable children_;         // (node, byte) -> child
  std::vector<uint32_t> ids_;  // by node; kUnknownPart: no piece ends here
  std::vector<float> scores_;  // by node
  float unknown_score_ = 0;
};

}  // namespace mindspeed::data
