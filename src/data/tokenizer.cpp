// SPDX-License-Identifier: Apache-2.0
// Normalise, cut into words, look each word up, merge those that are new.
#include "data/tokenizer.h"

#include <algorithm>
#include <string>

#include "data/character_class.h"
#include "data/error.h"
#include "data/nfc.h"
#include "data/utf8.h"
#include "data/vocabulary_file.h"

namespace mindspeed::data {
namespace {

constexpr size_t kWordsAtOnce = 256;

const uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

bool is_space_at(std::string_view text, size_t at, size_t* num_bytes) {
  const DecodedCharacter c = decode_utf8(bytes_of(text) + at, text.size() - at);
  *num_bytes = c.num_bytes;
  return c.valid && (character_classes()[c.code] & kSpace);
}

std::string_view without_trailing_space(std::string_view text) {
  while (!text.empty()) {
    size_t at = text.size() - 1, num_bytes;
    while (at > 0 && (uint8_t(text[at]) & 0xC0) == 0x80) --at;
    if (!is_space_at(text, at, &num_bytes)) break;
    text = text.substr(0, at);
  }
  return text;
}

size_t after_space(std::string_view text, size_t at) {
  size_t num_bytes;
  while (at < text.size() && is_space_at(text, at, &num_bytes)) at += num_bytes;
  return at;
}

}  // namespace

Tokenizer::Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
  const auto& tokens = vocabulary_.tokens;
  special_.resize(tokens.size());
  fallback_.resize(tokens.size());
  for (const uint32_t id : vocabulary_.byte_ids) fallback_[id] = true;
  for (const AddedToken& token : vocabulary_.added_tokens) special_[token.id] = token.special;
  by_bytes_.reserve(tokens.size());
  for (const bool fallback : {false, true}) {  // a character of one byte goes before the byte
    for (uint32_t id = 0; id < tokens.size(); ++id) {
      if (!tokens[id].empty() && fallback_[id] == fallback) by_bytes_.emplace(tokens[id], id);
    }
  }
  if (vocabulary_.model == Model::kUnigram) {
    prepare_unigram();
  } else {
    merger_.emplace(vocabulary_);
    prepare_words();
  }
}

void Tokenizer::prepare_unigram() {
  std::vector<bool> outside(vocab_size());
  for (const AddedToken& token : vocabulary_.added_tokens) outside[token.id] = true;
  for (const uint32_t id : vocabulary_.byte_ids) outside[id] = true;
  std::vector<Unigram::Piece> pieces;
  for (uint32_t id = 0; id < vocab_size(); ++id) {
    if (outside[id] || vocabulary_.tokens[id].empty()) continue;
    pieces.push_back({vocabulary_.tokens[id], id, vocabulary_.scores[id]});
  }
  unigram_.emplace(pieces);
}

// Most words of any text are tokens of the vocabulary. What the merges make of each is worked out
// here, so that an encoder's first text is as fast as its second; the commonest, which come first
// in a vocabulary, are put in last and so stay where two meet.
void Tokenizer::prepare_words() {
  std::vector<bool> outside(vocab_size());
  for (const AddedToken& token : vocabulary_.added_tokens) outside[token.id] = true;
  for (const uint32_t id : vocabulary_.byte_ids) outside[id] = true;
  uint32_t ids[WordCache::kMaxBytes];
  for (size_t id = vocab_size(); id-- > 0;) {
    const std::string& token = vocabulary_.tokens[id];
    if (token.empty() || outside[id]) continue;
    borders_.add_token(token);
    if (token.size() > WordCache::kMaxBytes) continue;
    const auto [count, same_in_words] = merger_->merge(token, false, ids);
    if (count > WordCache::kMaxIds || !same_in_words) continue;
    const auto key = WordCache::key_of(bytes_of(token), token.size(), false);
    known_words_.insert(key, WordCache::set_of(key), ids, count);
  }
}

std::shared_ptr<const Tokenizer> Tokenizer::from_file(const std::filesystem::path& path) {
  return std::make_shared<const Tokenizer>(read_vocabulary(path));
}

std::optional<uint32_t> Tokenizer::id_of(std::string_view token) const {
  const auto found = by_bytes_.find(token);
  if (found == by_bytes_.end()) return std::nullopt;
  return found->second;
}

std::string Tokenizer::decode(const uint32_t* ids, size_t count, bool skip_special_tokens) const {
  std::string text;
  bool at_start = vocabulary_.normalizer.space_before_text != SpaceBeforeText::kNever;
  for (size_t i = 0; i < count; ++i) {
    if (ids[i] >= vocabulary_.tokens.size()) {
      throw Error(
          "decode: a token id must be below the vocabulary size " + std::to_string(vocab_size()) +
          ", got " + std::to_string(ids[i]) + "; was the text encoded with another tokenizer?");
    }
    if (special_[ids[i]]) {
      if (!skip_special_tokens) text += vocabulary_.tokens[ids[i]];
      continue;
    }
    std::string_view token = vocabulary_.tokens[ids[i]];
    if (at_start && token.starts_with(' ')) token.remove_prefix(1);  // put there by encode
    at_start = false;
    text += token;
  }
  return text;
}

Encoder::Encoder(std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)), cache_(tokenizer_->known_words_) {}

void Encoder::encode(std::string_view text, std::vector<uint32_t>& ids) {
  encode_section(text, true, ids);
}

void Encoder::encode_with_added_tokens(std::string_view text, std::vector<uint32_t>& ids) {
  const auto& added_tokens = tokenizer_->vocabulary_.added_tokens;
  std::vector<bool> begins(256);
  for (const AddedToken& token : added_tokens) begins[uint8_t(token.text[0])] = true;
  size_t plain = 0;
  for (size_t i = 0; i < text.size();) {
    const AddedToken* longest = nullptr;
    for (const AddedToken& token : added_tokens) {
      if (!begins[uint8_t(text[i])]) break;
      if (text.substr(i, token.text.size()) == token.text &&
          (!longest || token.text.size() > longest->text.size())) {
        longest = &token;
      }
    }
    if (!longest) {
      ++i;
      continue;
    }
    const std::string_view before = text.substr(plain, i - plain);
    encode_section(longest->strip_left ? without_trailing_space(before) : before, plain == 0, ids);
    ids.push_back(longest->id);
    i += longest->text.size();
    plain = i = longest->strip_right ? after_space(text, i) : i;
  }
  encode_section(text.substr(plain), plain == 0, ids);
}

void Encoder::encode_section(std::string_view text, bool at_start, std::vector<uint32_t>& ids) {
  const Vocabulary& vocabulary = tokenizer_->vocabulary_;
  if (vocabulary.model == Model::kByteBpe) {
    if (vocabulary.nfc) {
      normalized_ = text;
      normalise_nfc(normalized_);
      text = normalized_;
    }
    return encode_bytes(text, ids);
  }
  vocabulary.normalizer.normalize(text, at_start, normalized_);
  const auto first = ptrdiff_t(ids.size());
  if (vocabulary.model == Model::kCharacterBpe) {
    encode_characters(normalized_, ids);
  } else {
    encode_unigram(normalized_, ids);
  }
  if (!vocabulary.byte_ids.empty()) return;
  const auto both_unknown = [&](uint32_t a, uint32_t b) {
    return a == b && a == vocabulary.unknown;
  };
  ids.erase(std::unique(ids.begin() + first, ids.end(), both_unknown), ids.end());
}

void Encoder::encode_bytes(std::string_view text, std::vector<uint32_t>& ids) {
  size_t ends[kWordsAtOnce];
  for (size_t start = 0; start < text.size();) {
    const size_t count =
        cut_words(tokenizer_->vocabulary_.pre_tokenizer, bytes_of(text), text.size(), start, ends);
    encode_words(text, start, ends, count, ids);
    start = ends[count - 1];
  }
}

void Encoder::encode_characters(std::string_view text, std::vector<uint32_t>& ids) {
  size_t ends[kWordsAtOnce];
  for (size_t start = 0; start < text.size();) {
    const size_t count = tokenizer_->borders_.cut(bytes_of(text), text.size(), start, ends);
    encode_words(text, start, ends, count, ids);
    start = ends[count - 1];
  }
}

void Encoder::encode_unigram(std::string_view text, std::vector<uint32_t>& ids) {
  const Vocabulary& vocabulary = tokenizer_->vocabulary_;
  parts_.clear();
  tokenizer_->unigram_->cut(text, parts_);
  size_t at = 0;
  for (const Unigram::Part& part : parts_) {
    if (part.id != Unigram::kUnknownPart) {
      ids.push_back(part.id);
    } else if (vocabulary.byte_ids.empty()) {
      ids.push_back(vocabulary.unknown.value());
    } else {
      for (size_t i = 0; i < part.num_bytes; ++i) {
        ids.push_back(vocabulary.byte_ids[uint8_t(text[at + i])]);
      }
    }
    at += part.num_bytes;
  }
}

// The slots of all words are asked for before the first is read: the cache is larger than the
// processor's.
void Encoder::encode_words(
    std::string_view text,
    size_t start,
    const size_t* ends,
    size_t count,
    std::vector<uint32_t>& ids) {
  WordCache::Key keys[kWordsAtOnce] = {};
  size_t sets[kWordsAtOnce] = {};
  for (size_t i = 0, at = start; i < count; at = ends[i++]) {
    const size_t size = ends[i] - at;
    if (size > WordCache::kMaxBytes) continue;
    keys[i] = WordCache::key_of(bytes_of(text) + at, size, text.size() - at >= 16);
    sets[i] = WordCache::set_of(keys[i]);
    cache_.prefetch(sets[i]);
  }
  size_t num_ids = ids.size();
  ids.resize(num_ids + (ends[count - 1] - start) + WordCache::kMaxIds);
  for (size_t i = 0; i < count; ++i) {
    uint32_t* const out = ids.data() + num_ids;
    const std::string_view word = text.substr(start, ends[i] - start);
    if (word.size() > WordCache::kMaxBytes) {
      num_ids += encode_long_word(word, out);
    } else if (const size_t found = cache_.find(keys[i], sets[i], out)) {
      num_ids += found;
    } else {
      num_ids += encode_new(word, keys[i], sets[i], false, out);
    }
    start = ends[i];
  }
  ids.resize(num_ids);
}

size_t Encoder::encode_long_word(std::string_view word, uint32_t* out) {
  if (word.size() > LongWordCache::kMaxBytes) return cut_and_encode(word, out);
  const size_t slot = LongWordCache::slot_of(word);
  if (const size_t count = long_words_.find(word, slot, out)) return count;
  const size_t count = cut_and_encode(word, out);
  if (count <= LongWordCache::kMaxIds) long_words_.insert(word, slot, out, count);
  return count;
}

size_t Encoder::cut_and_encode(std::string_view word, uint32_t* out) {
  if (tokenizer_->vocabulary_.model == Model::kCharacterBpe) {  // its words are pieces already
    return tokenizer_->merger_->merge(word, true, out).num_ids;
  }
  size_t ends[kWordsAtOnce], num_ids = 0;
  for (size_t at = 0; at < word.size();) {
    const size_t count = tokenizer_->borders_.cut(bytes_of(word), word.size(), at, ends);
    for (size_t i = 0; i < count; ++i) {
      const bool is_piece = at > 0 || ends[i] < word.size();
      num_ids += encode_piece(word.substr(at, ends[i] - at), is_piece, out + num_ids);
      at = ends[i];
    }
  }
  return num_ids;
}

size_t Encoder::encode_piece(std::string_view word, bool is_piece, uint32_t* out) {
  if (word.size() > WordCache::kMaxBytes) {
    return tokenizer_->merger_->merge(word, is_piece, out).num_ids;
  }
  const auto key = WordCache::key_of(bytes_of(word), word.size(), false);
  const size_t set = WordCache::set_of(key);
  if (const size_t count = cache_.find(key, set, out)) return count;
  return encode_new(word, key, set, is_piece, out);
}

size_t Encoder::encode_new(
    std::string_view word, WordCache::Key key, size_t set, bool is_piece, uint32_t* out) {
  const size_t slot = LongWordCache::slot_of(word);
  if (const size_t count = long_words_.find(word, slot, out)) return count;
  const auto [count, same_in_words] = tokenizer_->merger_->merge(word, is_piece, out);
  if (!same_in_words) return count;
  if (count <= WordCache::kMaxIds) {
    cache_.insert(key, set, out, count);
  } else if (count <= LongWordCache::kMaxIds) {
    long_words_.insert(word, slot, out, count);
  }
  return count;
}

}  // namespace mindspeed::data
