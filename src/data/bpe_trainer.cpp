// SPDX-License-Identifier: Apache-2.0
// Training keeps, for each pair, its count and the words that hold it; a merge touches only those
// words. The heap's counts may be stale: a popped pair whose count has changed goes back with the
// right one.
#include "data/bpe_trainer.h"

#include <xxhash.h>

#include <algorithm>
#include <numeric>
#include <queue>

#include "data/byte_alphabet.h"
#include "data/error.h"

namespace mindspeed::data {
namespace {

using Pair = uint64_t;
Pair pair_of(uint32_t left, uint32_t right) {
  return (Pair(left) << 32) | right;
}

struct PairHash {
  size_t operator()(Pair pair) const { return (pair ^ (pair >> 29)) * 0x9E3779B97F4A7C15ull; }
};

struct Candidate {
  int64_t count;
  Pair pair;
  std::vector<uint32_t> words;  // where the pair may occur, ascending
};

// For a max-heap: largest count, then smallest pair.
bool lower(const Candidate& a, const Candidate& b) {
  return a.count != b.count ? a.count < b.count : a.pair > b.pair;
}

class Trainer {
 public:
  Trainer(const WordCounts& words, std::vector<std::string>& tokens, const uint32_t* byte_ids)
      : tokens_(tokens) {
    for (uint32_t id = 0; id < tokens.size(); ++id) ids_.emplace(tokens[id], id);
    std::unordered_map<Pair, std::vector<uint32_t>, PairHash> occurrences;
    for (const auto& [word, count] : words.sorted()) {
      const auto index = uint32_t(words_.size());
      std::vector<uint32_t>& symbols = words_.emplace_back();
      for (const char byte : word) symbols.push_back(byte_ids[uint8_t(byte)]);
      counts_.push_back(int64_t(count));
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const Pair pair = pair_of(symbols[i], symbols[i + 1]);
        pair_counts_[pair] += int64_t(count);
        auto& where = occurrences[pair];
        if (where.empty() || where.back() != index) where.push_back(index);
      }
    }
    push(occurrences);
  }

  std::vector<std::array<uint32_t, 3>> train(size_t vocab_size, int64_t min_frequency) {
    std::vector<std::array<uint32_t, 3>> merges;
    while (tokens_.size() < vocab_size && !heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), lower);
      Candidate top = std::move(heap_.back());
      heap_.pop_back();
      const int64_t count = pair_counts_[top.pair];
      if (top.count != count) {
        top.count = count;
        heap_.push_back(std::move(top));
        std::push_heap(heap_.begin(), heap_.end(), lower);
        continue;
      }
      if (count < 1 || count < min_frequency) break;
      const auto left = uint32_t(top.pair >> 32), right = uint32_t(top.pair);
      // Two pairs may spell the same token; the second keeps the first one's id.
      const auto [entry, is_new] =
          ids_.emplace(tokens_[left] + tokens_[right], uint32_t(tokens_.size()));
      if (is_new) tokens_.push_back(entry->first);
      merges.push_back({left, right, entry->second});
      std::unordered_map<Pair, std::vector<uint32_t>, PairHash> occurrences;
      for (const uint32_t word : top.words) merge(word, merges.back(), occurrences);
      push(occurrences);
    }
    return merges;
  }

 private:
  void push(std::unordered_map<Pair, std::vector<uint32_t>, PairHash>& occurrences) {
    for (auto& [pair, where] : occurrences) {
      const int64_t count = pair_counts_[pair];
      if (count <= 0) continue;
      heap_.push_back({count, pair, std::move(where)});
      std::push_heap(heap_.begin(), heap_.end(), lower);
    }
  }

  // Replaces the pair in one word and books the neighbours' pairs lost and gained.
  void merge(
      uint32_t word,
      const std::array<uint32_t, 3>& rule,
      std::unordered_map<Pair, std::vector<uint32_t>, PairHash>& occurrences) {
    const auto [left, right, merged] = rule;
    std::vector<uint32_t>& symbols = words_[word];
    const int64_t count = counts_[word];
    const auto gain = [&](Pair pair) {
      pair_counts_[pair] += count;
      auto& where = occurrences[pair];
      if (where.empty() || where.back() != word) where.push_back(word);
    };
    size_t out = 0;
    for (size_t i = 0; i < symbols.size(); ++i, ++out) {
      if (symbols[i] != left || i + 1 == symbols.size() || symbols[i + 1] != right) {
        symbols[out] = symbols[i];
        continue;
      }
      if (out > 0) {
        pair_counts_[pair_of(symbols[out - 1], left)] -= count;
        gain(pair_of(symbols[out - 1], merged));
      }
      if (i + 2 < symbols.size()) {
        pair_counts_[pair_of(right, symbols[i + 2])] -= count;
        gain(pair_of(merged, symbols[i + 2]));
      }
      symbols[out] = merged;
      ++i;
    }
    symbols.resize(out);
  }

  std::vector<std::string>& tokens_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::vector<std::vector<uint32_t>> words_;
  std::vector<int64_t> counts_;
  std::unordered_map<Pair, int64_t, PairHash> pair_counts_;
  std::vector<Candidate> heap_;
};

}  // namespace

size_t WordCounts::Hash::operator()(std::string_view text) const {
  return XXH3_64bits(text.data(), text.size());
}

void WordCounts::add(std::string_view text) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  size_t ends[256];
  for (size_t start = 0; start < text.size();) {
    const size_t count = cut_words(pre_tokenizer_, bytes, text.size(), start, ends);
    for (size_t i = 0; i < count; ++i) {
      const std::string_view word = text.substr(start, ends[i] - start);
      const auto found = counts_.find(word);
      if (found != counts_.end()) {
        ++found->second;
      } else {
        counts_.emplace(word, 1);
      }
      start = ends[i];
    }
  }
}

void WordCounts::merge(const WordCounts& other) {
  for (const auto& [word, count] : other.counts_) counts_[word] += count;
}

std::vector<std::pair<std::string_view, uint64_t>> WordCounts::sorted() const {
  std::vector<std::pair<std::string_view, uint64_t>> words(counts_.begin(), counts_.end());
  std::sort(words.begin(), words.end());
  return words;
}

Vocabulary train_bpe(
    const WordCounts& words,
    size_t vocab_size,
    const std::vector<std::string>& special_tokens,
    uint64_t min_frequency) {
  const size_t num_fixed = special_tokens.size() + 256;
  if (vocab_size < num_fixed) {
    throw Error(
        "vocabulary size must be at least " + std::to_string(num_fixed) + " (256 bytes and " +
        std::to_string(special_tokens.size()) + " special tokens), got " +
        std::to_string(vocab_size));
  }
  Vocabulary vocabulary;
  vocabulary.pre_tokenizer = words.pre_tokenizer();
  for (const std::string& text : special_tokens) {
    vocabulary.added_tokens.push_back({text, uint32_t(vocabulary.tokens.size()), true});
    vocabulary.tokens.push_back(text);
  }
  uint8_t
      bytes[256];  // in the order of their printable characters, as the tokenizers library has them
  std::iota(std::begin(bytes), std::end(bytes), uint8_t(0));
  std::sort(std::begin(bytes), std::end(bytes), [](uint8_t a, uint8_t b) {
    return byte_alphabet()[a] < byte_alphabet()[b];
  });
  uint32_t byte_ids[256];
  for (const uint8_t byte : bytes) {
    byte_ids[byte] = uint32_t(vocabulary.tokens.size());
    vocabulary.tokens.emplace_back(1, char(byte));
  }
  vocabulary.merges =
      Trainer(words, vocabulary.tokens, byte_ids).train(vocab_size, int64_t(min_frequency));
  if (!special_tokens.empty()) vocabulary.end_of_text = 0;
  return vocabulary;
}

}  // namespace mindspeed::data
