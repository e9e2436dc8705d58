// SPDX-License-Identifier: Apache-2.0
// Merging: short words by repeated search of the lowest rank, long ones with a heap over a linked
// list (n log n, so that a word of a million bytes is no trap). Most words come from the cache.
#include "data/tokenizer.h"

#include <algorithm>
#include <cstring>
#include <queue>
#include <string>

#include "data/byte_alphabet.h"
#include "data/error.h"
#include "data/tokenizer_json.h"

namespace mindspeed::data {
namespace {

constexpr size_t kCacheSlots = size_t(1) << 18;  // 8 MiB; pages are touched as words fill them
constexpr size_t kMaxCachedBytes = 15;
constexpr size_t kMaxShortWord = 48;  // above this many bytes the heap is faster
constexpr uint32_t kUnused = UINT32_MAX;

}  // namespace

Tokenizer::Tokenizer(Vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)), merges_(vocabulary_.merges.size()) {
  const auto& tokens = vocabulary_.tokens;
  added_.resize(tokens.size());
  special_.resize(tokens.size());
  for (const AddedToken& token : vocabulary_.added_tokens) {
    added_[token.id] = true;
    special_[token.id] = token.special;
  }
  by_bytes_.reserve(tokens.size());
  for (uint32_t id = 0; id < tokens.size(); ++id) {
    if (!tokens[id].empty()) by_bytes_.emplace_back(tokens[id], id);
  }
  std::sort(by_bytes_.begin(), by_bytes_.end());
  for (int byte = 0; byte < 256; ++byte) {
    const char text = char(byte);
    const auto id = id_of({&text, 1});
    if (!id) {
      throw Error(
          "tokenizer: a byte-level vocabulary must have a token for each of the 256 bytes, got "
          "none for byte " +
          std::to_string(byte) + "; train it with the whole byte alphabet");
    }
    byte_ids_[byte] = *id;
  }
  for (uint32_t rank = 0; rank < vocabulary_.merges.size(); ++rank) {
    const auto& [left, right, merged] = vocabulary_.merges[rank];
    merges_.insert(left, right, {rank, merged});
  }
}

std::shared_ptr<const Tokenizer> Tokenizer::from_file(const std::filesystem::path& path) {
  return std::make_shared<const Tokenizer>(read_tokenizer_json(path));
}

std::optional<uint32_t> Tokenizer::id_of(std::string_view token) const {
  const auto found = std::lower_bound(
      by_bytes_.begin(), by_bytes_.end(), token, [](const auto& a, std::string_view b) {
        return a.first < b;
      });
  if (found == by_bytes_.end() || found->first != token) return std::nullopt;
  return found->second;
}

std::string Tokenizer::decode(const uint32_t* ids, size_t count, bool skip_special_tokens) const {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    if (ids[i] >= vocabulary_.tokens.size()) {
      throw Error(
          "decode: a token id must be below the vocabulary size " + std::to_string(vocab_size()) +
          ", got " + std::to_string(ids[i]) + "; was the text encoded with another tokenizer?");
    }
    if (!(skip_special_tokens && special_[ids[i]])) text += vocabulary_.tokens[ids[i]];
  }
  return text;
}

Encoder::Encoder(std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)), cache_(kCacheSlots) {}

void Encoder::encode(std::string_view text, std::vector<uint32_t>& ids) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  size_t ends[256];
  for (size_t start = 0; start < text.size();) {
    const size_t count =
        cut_words(tokenizer_->vocabulary_.pre_tokenizer, bytes, text.size(), start, ends);
    size_t num_ids = ids.size();
    ids.resize(num_ids + (ends[count - 1] - start) + kMaxCachedIds);
    for (size_t i = 0; i < count; ++i) {
      num_ids += encode_word(
          bytes + start, ends[i] - start, text.size() - start >= 16, ids.data() + num_ids);
      start = ends[i];
    }
    ids.resize(num_ids);
  }
}

void Encoder::encode_with_added_tokens(std::string_view text, std::vector<uint32_t>& ids) {
  const auto& added_tokens = tokenizer_->vocabulary_.added_tokens;
  size_t plain = 0;
  for (size_t i = 0; i < text.size();) {
    const AddedToken* longest = nullptr;
    for (const AddedToken& token : added_tokens) {
      if (text[i] == token.text[0] && text.substr(i, token.text.size()) == token.text &&
          (!longest || token.text.size() > longest->text.size())) {
        longest = &token;
      }
    }
    if (!longest) {
      ++i;
      continue;
    }
    encode(text.substr(plain, i - plain), ids);
    ids.push_back(longest->id);
    plain = i += longest->text.size();
  }
  encode(text.substr(plain), ids);
}

size_t Encoder::encode_word(
    const uint8_t* word, size_t size, bool may_read_16_bytes, uint32_t* out) {
  if (size > kMaxCachedBytes) return merge_word(word, size, out);
  uint64_t key[2] = {0, 0};
  if (may_read_16_bytes) {
    std::memcpy(key, word, sizeof key);
    key[0] &= size >= 8 ? UINT64_MAX : (uint64_t(1) << (8 * size)) - 1;
    key[1] &= size > 8 ? (uint64_t(1) << (8 * (size - 8))) - 1 : 0;
  } else {
    std::memcpy(key, word, size);
  }
  key[1] |= uint64_t(size) << 56;
  const uint64_t mixed = (key[0] ^ (key[1] * 0xC2B2AE3D27D4EB4Full)) * 0x9E3779B97F4A7C15ull;
  static_assert(kCacheSlots == size_t(1) << (64 - 46));
  Slot* set = &cache_[(mixed >> 46) & ~size_t(1)];
  for (int way = 0; way < 2; ++way) {
    const Slot& slot = set[way];
    if (slot.key[0] == key[0] && slot.key[1] == key[1]) {
      std::memcpy(out, slot.ids, sizeof slot.ids);
      size_t count = 1;
      for (size_t i = 1; i < kMaxCachedIds; ++i) count += slot.ids[i] != kUnused;
      return count;
    }
  }
  const size_t count = merge_word(word, size, out);
  if (count > kMaxCachedIds) return count;
  set[1] = set[0];
  std::memcpy(set[0].key, key, sizeof key);
  for (size_t i = 0; i < kMaxCachedIds; ++i) set[0].ids[i] = i < count ? out[i] : kUnused;
  return count;
}

size_t Encoder::merge_word(const uint8_t* word, size_t size, uint32_t* out) const {
  if (tokenizer_->vocabulary_.ignore_merges) {
    const auto whole = tokenizer_->id_of({reinterpret_cast<const char*>(word), size});
    if (whole && !tokenizer_->added_[*whole]) {
      *out = *whole;
      return 1;
    }
  }
  if (size > kMaxShortWord) return merge_long(word, size, out);
  for (size_t i = 0; i < size; ++i) out[i] = tokenizer_->byte_ids_[word[i]];
  return merge_short(out, size);
}

size_t Encoder::merge_short(uint32_t* symbols, size_t count) const {
  Merge merges[kMaxShortWord];  // of symbol i with symbol i + 1
  const auto find = [&](size_t i) {
    return i + 1 < count ? tokenizer_->merges_.find(symbols[i], symbols[i + 1]) : Merge{kNoRank, 0};
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

size_t Encoder::merge_long(const uint8_t* word, size_t size, uint32_t* out) const {
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
  for (size_t i = 0; i < size; ++i) {
    symbols[i] = {tokenizer_->byte_ids_[word[i]], i - 1, i + 1 < size ? i + 1 : kEnd};
  }
  std::vector<Candidate> candidates;
  const auto candidate = [&](size_t position) -> Candidate {
    const Symbol& symbol = symbols[position];
    if (symbol.next == kEnd) return {{kNoRank, 0}, 0, 0, 0};
    const uint32_t right = symbols[symbol.next].id;
    return {tokenizer_->merges_.find(symbol.id, right), position, symbol.id, right};
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
    symbols[left.next].id = kUnused;
    left.id = top.merge.id;
    left.next = symbols[left.next].next;
    if (left.next != kEnd) symbols[left.next].previous = top.position;
    if (const Candidate c = candidate(top.position); c.merge.rank != kNoRank) queue.push(c);
    if (top.position > 0) {
      if (const Candidate c = candidate(left.previous); c.merge.rank != kNoRank) queue.push(c);
    }
  }
  size_t count = 0;
  for (size_t i = 0; i != kEnd; i = symbols[i].next) out[count++] = symbols[i].id;
  return count;
}

}  // namespace mindspeed::data
