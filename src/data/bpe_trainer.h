// SPDX-License-Identifier: Apache-2.0
// Learns a byte-level BPE vocabulary: the most frequent neighbouring pair merges first, of equals
// the one with the smaller ids. Same merges as the tokenizers library's BpeTrainer (which see) on
// the same text.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizer.h"

namespace mindspeed::data {

// Words and how often each occurs. One per thread; add them up with merge().
class WordCounts {
 public:
  explicit WordCounts(PreTokenizer pre_tokenizer) : pre_tokenizer_(pre_tokenizer) {}
  void add(std::string_view text);
  void merge(const WordCounts& other);
  // Sorted by word, so that nothing later depends on the order of counting.
  std::vector<std::pair<std::string_view, uint64_t>> sorted() const;
  PreTokenizer pre_tokenizer() const { return pre_tokenizer_; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const;
  };
  PreTokenizer pre_tokenizer_;
  std::unordered_map<std::string, uint64_t, Hash, std::equal_to<>> counts_;
};

// A vocabulary of up to `vocab_size` tokens: the special tokens (ids from 0), the 256 bytes, the
// merges. Smaller when the text has no pair left that occurs `min_frequency` times. Throws Error if
// `vocab_size` leaves no room for the bytes.
Vocabulary train_bpe(
    const WordCounts& words,
    size_t vocab_size,
    const std::vector<std::string>& special_tokens,
    uint64_t min_frequency = 2);

}  // namespace mindspeed::data
