// SPDX-License-Identifier: Apache-2.0
// Learns a byte-level BPE vocabulary: the most frequent neighbouring pair merges first, of equals
// the one with the smaller ids. Same merges as the tokenizers library's BpeTrainer (which see) on
// the same text.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"

namespace mindspeed::data {

// Words and how often each occurs. One per thread; add them up with merge().
class WordCounts {
 public:
  explicit WordCounts(PreTokenizer pre_tokenizer);
  void add(std::string_view text);
  void add_word(std::string_view word, uint64_t count);
  void merge(const WordCounts& other);

  struct Word {
    size_t start;  // in letters()
    uint32_t size;
    uint32_t hash;
    uint64_t count;
  };
  const std::vector<Word>& words() const { return words_; }  // each once, in no order
  std::string_view text(const Word& word) const {
    return {letters_.data() + word.start, word.size};
  }
  PreTokenizer pre_tokenizer() const { return pre_tokenizer_; }

 private:
  void grow();

  PreTokenizer pre_tokenizer_;
  std::vector<Word> words_;
  std::vector<char> letters_;
  std::vector<uint32_t> slots_;  // 1 + index into words_, by hash; 0: empty
};

// A vocabulary of up to `vocab_size` tokens: the special tokens (ids from 0), the 256 bytes, the
// merges. Smaller when the text has no pair left that occurs `min_frequency` times. The result does
// not depend on the order in which words were added. Throws Error if `vocab_size` leaves no room
// for the bytes, or the distinct words have 2^32 bytes or more.
Vocabulary train_bpe(
    const WordCounts& words,
    size_t vocab_size,
    const std::vector<std::string>& special_tokens,
    uint64_t min_frequency = 2);

}  // namespace mindspeed::data
