// SPDX-License-Identifier: Apache-2.0
// Short words by repeated search of the lowest rank, long ones with a heap over a linked list
// (n log n, so that a word of a million bytes is no trap).
#include "data/bpe_merger.h"

#include <cstring>
#include <queue>
#include <string>

#include "data/error.h"
#include "data/utf8.h"

namespace mindspeed::data {
namespace {

constexpr size_t kMaxShortWord = 48;  // above this many symbols the heap is faster
constexpr uint32_t kNoId = UINT32_MAX;
constexpr char32_t kSpaceSign = 0x2581;  // SentencePiece's way to write a space

std::vector<bool> outside_merges(const Vocabulary& vocabulary) {
  std::vector<bool> outside(vocabulary.tokens.size());
  for (const AddedToken& token : vocabulary.added_tokens) outside[token.id] = true;
  for (const uint32_t id : vocabulary.byte_ids) outside[id] = true;
  return outside;
}

}  // namespace

BpeMerger::BpeMerger(const Vocabulary& vocabulary)
    : characters_(vocabulary.model == Model::kCharacterBpe),
      first_ids_(characters_ ? 0x110000 : 256, kNoId),
      byte_ids_(vocabulary.byte_ids),
      unknown_(vocabulary.unknown.value_or(kNoId)),
      merges_(vocabulary.merges.size()) {
  const std::vector<bool> outside = outside_merges(vocabulary);
  for (uint32_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string_view token = vocabulary.tokens[id];
    if (token.empty() || outside[id]) continue;
    if (!characters_) {
      if (token.size() == 1) first_ids_[uint8_t(token[0])] = id;
      if (vocabulary.ignore_merges) whole_words_.emplace(token, WholeWord{id, false});
      continue;
    }
    const auto c = decode_utf8(reinterpret_cast<const uint8_t*>(token.data()), token.size());
    if (c.valid && c.num_bytes == token.size()) first_ids_[c.code] = id;
  }
  if (characters_) first_ids_[kSpaceSign] = first_ids_[' '];
  for (size_t byte = 0; !characters_ && byte < 256; ++byte) {
    if (first_ids_[byte] != kNoId) continue;
    throw Error(
        "tokenizer: a byte-level vocabulary must have a token for each of the 256 bytes, got none "
        "for byte " +
        std::to_string(byte) + "; train it with the whole byte alphabet");
  }
  const auto& ranks = vocabulary.merge_ranks;
  for (uint32_t i = 0; i < vocabulary.merges.size(); ++i) {
    const auto& [left, right, merged] = vocabulary.merges[i];
    merges_.insert(left, right, {ranks.empty() ? i : ranks[i], merged});
  }
  std::vector<uint32_t> ids;
  for (auto& [word, whole] : whole_words_) {
    ids.resize(word.size());
    whole.by_merges = merge_symbols(word, ids.data()) == 1;
  }
}

BpeMerger::Result BpeMerger::merge(std::string_view word, bool is_piece, uint32_t* out) const {
  if (whole_words_.empty()) return {merge_symbols(word, out), true};
  const auto whole = whole_words_.find(word);
  if (whole == whole_words_.end()) return {merge_symbols(word, out), true};
  const auto [id, by_merges] = whole->second;
  if (is_piece && !by_merges) return {merge_symbols(word, out), false};
  *out = id;
  return {1, by_merges};
}

size_t BpeMerger::merge_symbols(std::string_view word, uint32_t* out) const {
  const size_t count = first_symbols(word, out);
  return count > kMaxShortWord ? merge_long(out, count) : merge_short(out, count);
}

size_t BpeMerger::first_symbols(std::string_view word, uint32_t* out) const {
  const auto* bytes = reinterpret_cast<const uint8_t*>(word.data());
  if (!characters_) {
    for (size_t i = 0; i < word.size(); ++i) out[i] = first_ids_[bytes[i]];
    return word.size();
  }
  size_t count = 0;
  for (size_t i = 0; i < word.size();) {
    const DecodedCharacter c = decode_utf8(bytes + i, word.size() - i);
    const uint32_t id = first_ids_[c.code];
    if (id != kNoId) {
      out[count++] = id;
    } else if (byte_ids_.empty()) {
      out[count++] = unknown_;
    } else {
      for (size_t j = i; j < i + c.num_bytes; ++j) out[count++] = byte_ids_[bytes[j]];
    }
    i += c.num_bytes;
  }
  return count;
}

size_t BpeMerger::merge_short(uint32_t* symbols, size_t count) const {
  Merge merges[kMaxShortWord];  // of symbol i with symbol i + 1
  const auto find = [&](size_t i) {
    return i + 1 < count ? merges_.find(symbols[i], symbols[i + 1]) : Merge{kNoRank, 0};
  };
  for (size_t i = 0; i < count; ++i) merges[i] = find(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNoRank) break;
    symbols[best] = merges[best].id;
    --count;
    std::memmove(symbols + best + 1, symbols + best + 2, (count - best - 1) * sizeof *symbols);
    std::memmove(merges + best + 1, merges + best + 2, (count - best - 1) * sizeof *merges);
    merges[best] = find(best);
    if (best > 0) merges[best - 1] = find(best - 1);
  }
  return count;
}

size_t BpeMerger::merge_long(uint32_t* first, size_t size) const {
  constexpr size_t kEnd = SIZE_MAX;
  struct Symbol {
    uint32_t id;
    size_t previous, next;
  };
  struct Candidate {
    Merge merge;
    size_t position;
    uint32_t left, right;  // the symbols it was made for; stale when they have changed
    bool operator<(const Candidate& other) const {  // the heap's top is the largest
      return merge.rank != other.merge.rank ? merge.rank > other.merge.rank
                                            : position > other.position;
    }
  };
  std::vector<Symbol> symbols(size);
  for (size_t i = 0; i < size; ++i) symbols[i] = {first[i], i - 1, i + 1 < size ? i + 1 : kEnd};
  std::vector<Candidate> candidates;
  const auto candidate = [&](size_t position) -> Candidate {
    const Symbol& symbol = symbols[position];
    if (symbol.next == kEnd) return {{kNoRank, 0}, 0, 0, 0};
    const uint32_t right = symbols[symbol.next].id;
    return {merges_.find(symbol.id, right), position, symbol.id, right};
  };
  for (size_t i = 0; i + 1 < size; ++i) {
    if (const Candidate c = candidate(i); c.merge.rank != kNoRank) candidates.push_back(c);
  }
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(candidates));
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.position];
    if (left.id != top.left || left.next == kEnd || symbols[left.next].id != top.right) continue;
    symbols[left.next].id = kNoId;
    left.id = top.merge.id;
    left.next = symbols[left.next].next;
    if (left.next != kEnd) symbols[left.next].previous = top.position;
    if (const Candidate c = candidate(top.position); c.merge.rank != kNoRank) queue.push(c);
    if (top.position > 0) {
      if (const Candidate c = candidate(left.previous); c.merge.rank != kNoRank) queue.push(c);
    }
  }
  size_t count = 0;
  for (size_t i = 0; i != kEnd; i = symbols[i].next) first[count++] = symbols[i].id;
  return count;
}

}  // namespace mindspeed::data
