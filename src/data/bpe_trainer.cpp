// SPDX-License-Identifier: Apache-2.0
// All distinct words lie one after another in an array of cells, one per byte; a merge joins cells
// in place. Each pair has the list of where it began; a merge walks that list and touches nothing
// else, so that even a word of a million letters costs its merges only. The heap's counts may be
// stale: a popped pair whose count has changed goes back with the right one.
#include "data/bpe_trainer.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <unordered_map>

#include "data/byte_alphabet.h"
#include "data/error.h"

namespace mindspeed::data {
namespace {

using Pair = uint64_t;
Pair pair_of(uint32_t left, uint32_t right) {
  return (Pair(left) << 32) | right;
}

// How often each pair occurs: a flat open addressing table.
class PairCounts {
 public:
  PairCounts() : slots_(size_t(1) << 16) {}

  // The count of the pair, changed by `change`.
  int64_t add(Pair pair, int64_t change) {
    if (num_pairs_ * 3 > slots_.size() * 2) grow();
    Slot& slot = slots_[find(pair)];
    if (slot.pair == kEmpty) {
      slot.pair = pair;
      ++num_pairs_;
    }
    return slot.count += change;
  }

  int64_t operator[](Pair pair) const { return slots_[find(pair)].count; }

 private:
  static constexpr Pair kEmpty = UINT64_MAX;
  struct Slot {
    Pair pair = kEmpty;
    int64_t count = 0;
  };

  size_t find(Pair pair) const {
    const size_t mask = slots_.size() - 1;
    size_t i = ((pair ^ (pair >> 32)) * 0x9E3779B97F4A7C15ull) >> 20 & mask;
    while (slots_[i].pair != pair && slots_[i].pair != kEmpty) i = (i + 1) & mask;
    return i;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.pair != kEmpty) slots_[find(slot.pair)] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t num_pairs_ = 0;
};

// Lists of positions that live as long as this.
class PositionLists {
 public:
  uint32_t* allocate(size_t count) {
    if (count > left_) {
      left_ = std::max<size_t>(count, size_t(1) << 20);
      blocks_.push_back(std::make_unique_for_overwrite<uint32_t[]>(left_));
      next_ = blocks_.back().get();
    }
    uint32_t* list = next_;
    next_ += count;
    left_ -= count;
    return list;
  }

 private:
  std::vector<std::unique_ptr<uint32_t[]>> blocks_;
  uint32_t* next_ = nullptr;
  size_t left_ = 0;
};

struct Candidate {
  int64_t count;
  Pair pair;
  const uint32_t* positions;  // where the pair may begin, ascending
  size_t num_positions;
};

// For a max-heap: largest count, then smallest pair.
bool lower(const Candidate& a, const Candidate& b) {
  return a.count != b.count ? a.count < b.count : a.pair > b.pair;
}

// The symbols that a merge found on one side of it.
class Neighbours {
 public:
  explicit Neighbours(size_t vocab_size) : sums_(vocab_size) {}

  void add(uint32_t symbol, int64_t count, uint32_t position) {
    Sum& sum = sums_[symbol];
    if (sum.num == 0) symbols_.push_back(symbol);
    sum.count += count;
    ++sum.num;
    events_.emplace_back(symbol, position);
  }

  // Calls visit(symbol, count, positions, number of them) for each, and forgets them.
  template <typename Visit>
  void take(PositionLists& lists, const Visit& visit) {
    uint32_t* all = lists.allocate(events_.size());
    for (const uint32_t symbol : symbols_) {
      sums_[symbol].positions = all;
      all += sums_[symbol].num;
    }
    for (const auto& [symbol, position] : events_) *sums_[symbol].positions++ = position;
    for (const uint32_t symbol : symbols_) {
      Sum& sum = sums_[symbol];
      visit(symbol, sum.count, sum.positions - sum.num, size_t(sum.num));
      sum = {};
    }
    symbols_.clear();
    events_.clear();
  }

 private:
  struct Sum {
    int64_t count = 0;
    uint32_t num = 0;
    uint32_t* positions = nullptr;  // end of those written
  };

  std::vector<Sum> sums_;  // by symbol
  std::vector<uint32_t> symbols_;
  std::vector<std::pair<uint32_t, uint32_t>> events_;
};

class Trainer {
 public:
  Trainer(
      const WordCounts& words,
      std::vector<std::string>& tokens,
      const uint32_t* byte_ids,
      size_t vocab_size)
      : vocab_size_(vocab_size), tokens_(tokens), left_(vocab_size), right_(vocab_size) {
    for (uint32_t id = 0; id < tokens.size(); ++id) ids_.emplace(tokens[id], id);
    lay_out(words, byte_ids);
    find_first_pairs();
  }

  std::vector<std::array<uint32_t, 3>> train(int64_t min_frequency) {
    std::vector<std::array<uint32_t, 3>> merges;
    while (tokens_.size() < vocab_size_ && !heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), lower);
      Candidate top = heap_.back();
      heap_.pop_back();
      const int64_t count = pair_counts_[top.pair];
      if (top.count != count) {
        top.count = count;
        push(top);
        continue;
      }
      if (count < 1 || count < min_frequency) break;
      const auto left = uint32_t(top.pair >> 32), right = uint32_t(top.pair);
      // Two pairs may spell the same token; the second keeps the first one's id.
      const auto [entry, is_new] =
          ids_.emplace(tokens_[left] + tokens_[right], uint32_t(tokens_.size()));
      if (is_new) tokens_.push_back(entry->first);
      merges.push_back({left, right, entry->second});
      merge(top, left, right, entry->second);
    }
    return merges;
  }

 private:
  static constexpr uint32_t kBorder = UINT32_MAX;      // between words
  static constexpr uint32_t kJoined = UINT32_MAX - 1;  // inside a symbol

  struct Cell {
    uint32_t symbol;  // in the first cell of a symbol
    uint32_t length;  // of the symbol in cells: in its first and last one
  };

  void lay_out(const WordCounts& words, const uint32_t* byte_ids) {
    uint64_t num_cells = 1;
    for (const WordCounts::Word& word : words.words()) num_cells += uint64_t(word.size) + 1;
    if (num_cells > UINT32_MAX) {
      throw Error(
          "training text: its distinct words must have less than 2^32 bytes, got " +
          std::to_string(num_cells) + "; train on a sample of it");
    }
    cells_.reserve(num_cells);
    word_of_.reserve(num_cells);
    const auto border = [&] {
      cells_.push_back({kBorder, 1});
      word_of_.push_back(uint32_t(counts_.size()));
    };
    border();
    for (const WordCounts::Word& word : words.words()) {
      for (const char byte : words.text(word)) cells_.push_back({byte_ids[uint8_t(byte)], 1});
      word_of_.resize(cells_.size(), uint32_t(counts_.size()));
      counts_.push_back(int64_t(word.count));
      border();
    }
  }

  // Lists the pairs of bytes by the left one's id, as merges list theirs by a neighbour's.
  void find_first_pairs() {
    std::vector<std::vector<uint32_t>> starts(tokens_.size());
    for (uint32_t i = 0; i + 1 < cells_.size(); ++i) {
      if (cells_[i].symbol != kBorder) starts[cells_[i].symbol].push_back(i);
    }
    for (uint32_t symbol = 0; symbol < starts.size(); ++symbol) {
      for (const uint32_t i : starts[symbol]) {
        const uint32_t next = cells_[i + 1].symbol;
        if (next != kBorder) right_.add(next, counts_[word_of_[i]], i);
      }
      starts[symbol] = {};
      right_.take(
          lists_, [&](uint32_t next, int64_t count, const uint32_t* positions, size_t number) {
            gain(pair_of(symbol, next), count, positions, number);
          });
    }
  }

  void gain(Pair pair, int64_t change, const uint32_t* positions, size_t num_positions) {
    const int64_t count = pair_counts_.add(pair, change);
    if (count > 0) push({count, pair, positions, num_positions});
  }

  void push(const Candidate& candidate) {
    heap_.push_back(candidate);
    std::push_heap(heap_.begin(), heap_.end(), lower);
  }

  void merge(const Candidate& candidate, uint32_t left, uint32_t right, uint32_t merged) {
    constexpr size_t kAhead = 16;
    for (size_t i = 0; i < candidate.num_positions; ++i) {
      if (i + kAhead < candidate.num_positions) {
        __builtin_prefetch(&cells_[candidate.positions[i + kAhead]], 1);
        __builtin_prefetch(&word_of_[candidate.positions[i + kAhead]]);
      }
      merge_at(candidate.positions[i], left, right, merged);
    }
    // Where x stood before the pair, (x, left) became (x, merged); likewise after it.
    left_.take(
        lists_, [&](uint32_t symbol, int64_t count, const uint32_t* positions, size_t number) {
          pair_counts_.add(pair_of(symbol, left), -count);
          gain(pair_of(symbol, merged), count, positions, number);
        });
    right_.take(
        lists_, [&](uint32_t symbol, int64_t count, const uint32_t* positions, size_t number) {
          pair_counts_.add(pair_of(right, symbol), -count);
          gain(pair_of(merged, symbol), count, positions, number);
        });
  }

  void merge_at(uint32_t at, uint32_t left, uint32_t right, uint32_t merged) {
    if (cells_[at].symbol != left) return;
    const uint32_t second = at + cells_[at].length;
    if (cells_[second].symbol != right) return;
    const uint32_t next = second + cells_[second].length;
    const uint32_t previous = at - cells_[at - 1].length;
    const int64_t count = counts_[word_of_[at]];
    if (cells_[previous].symbol != kBorder) left_.add(cells_[previous].symbol, count, previous);
    if (cells_[next].symbol != kBorder) right_.add(cells_[next].symbol, count, at);
    cells_[second].symbol = kJoined;
    cells_[at] = {merged, next - at};
    cells_[next - 1].length = next - at;
  }

  size_t vocab_size_;
  std::vector<std::string>& tokens_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::vector<Cell> cells_;
  std::vector<uint32_t> word_of_;  // by cell
  std::vector<int64_t> counts_;    // by word
  PairCounts pair_counts_;
  PositionLists lists_;
  Neighbours left_, right_;
  std::vector<Candidate> heap_;
};

}  // namespace

WordCounts::WordCounts(PreTokenizer pre_tokenizer)
    : pre_tokenizer_(pre_tokenizer), slots_(size_t(1) << 12) {}

void WordCounts::add(std::string_view text) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  size_t ends[256];
  for (size_t start = 0; start < text.size();) {
    const size_t count = cut_words(pre_tokenizer_, bytes, text.size(), start, ends);
    for (size_t i = 0; i < count; ++i) {
      add_word(text.substr(start, ends[i] - start), 1);
      start = ends[i];
    }
  }
}

void WordCounts::add_word(std::string_view word, uint64_t count) {
  if (word.size() > UINT32_MAX) {
    throw Error(
        "training text: a word must have less than 2^32 bytes, got " + std::to_string(word.size()));
  }
  const auto hash = uint32_t(XXH3_64bits(word.data(), word.size()));
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  for (; slots_[i] != 0; i = (i + 1) & mask) {
    Word& found = words_[slots_[i] - 1];
    if (found.hash == hash && text(found) == word) {
      found.count += count;
      return;
    }
  }
  words_.push_back({letters_.size(), uint32_t(word.size()), hash, count});
  letters_.insert(letters_.end(), word.begin(), word.end());
  slots_[i] = uint32_t(words_.size());
  if (words_.size() * 2 > slots_.size()) grow();
}

void WordCounts::grow() {
  slots_.assign(slots_.size() * 2, 0);
  const size_t mask = slots_.size() - 1;
  for (uint32_t index = 0; index < words_.size(); ++index) {
    size_t i = words_[index].hash & mask;
    while (slots_[i] != 0) i = (i + 1) & mask;
    slots_[i] = index + 1;
  }
}

void WordCounts::merge(const WordCounts& other) {
  for (const Word& word : other.words_) add_word(other.text(word), word.count);
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
      Trainer(words, vocabulary.tokens, byte_ids, vocab_size).train(int64_t(min_frequency));
  if (!special_tokens.empty()) vocabulary.end_of_text = 0;
  return vocabulary;
}

}  // namespace mindspeed::data
