// SPDX-License-Identifier: Apache-2.0
// What a vocabulary file says, whatever its format. vocabulary_file.h reads the formats.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/pre_tokenizer.h"
#include "data/text_normalizer.h"

namespace mindspeed::data {

// A token outside the merges: found in text only when asked for.
struct AddedToken {
  std::string text;
  uint32_t id;
  bool special;              // left out of decoded text on request
  bool strip_left = false;   // takes the white space before it, and
  bool strip_right = false;  // after it
};

enum class Model {
  kByteBpe,       // words cut by a pre-tokeniser, pairs of bytes merge
  kCharacterBpe,  // SentencePiece: no pre-tokeniser, pairs of characters merge
  kUnigram,       // SentencePiece: the most probable way to cut the text into tokens
};

struct Vocabulary {
  Model model = Model::kByteBpe;
  std::vector<std::string> tokens;  // bytes of each id; added tokens: their text; unused ids: empty
  std::vector<std::array<uint32_t, 3>> merges;  // left, right, merged; by rank
  std::vector<uint32_t> merge_ranks;            // rank of each merge; empty: its place
  std::vector<AddedToken> added_tokens;
  PreTokenizer pre_tokenizer = PreTokenizer::kGpt2;
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges say
  bool nfc = false;            // text becomes Unicode normal form C first
  std::optional<uint32_t> begin_of_text, end_of_text;

  // Of the models over characters. A space stands in `tokens` where the file has U+2581.
  std::vector<float> scores;        // unigram: logarithm of each token's probability
  std::optional<uint32_t> unknown;  // what no token spells, unless there are
  std::vector<uint32_t> byte_ids;   // tokens of the 256 bytes; empty: no such fallback
  SentencePieceNormalizer normalizer;
};

}  // namespace mindspeed::data
