// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE. A Tokenizer is immutable and may be shared by threads; an Encoder holds the
// scratch memory and the word cache of one thread. Text is cut into words (pre_tokenizer.h); within
// a word the neighbouring pair with the lowest rank merges first, the leftmost of equals.
#pragma once
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/pair_table.h"
#include "data/pre_tokenizer.h"

namespace mindspeed::data {

// A token outside the merges: found in text only when asked for.
struct AddedToken {
  std::string text;
  uint32_t id;
  bool special;  // left out of decoded text on request
};

// What a vocabulary file says; tokenizer_json.h reads and writes it.
struct Vocabulary {
  std::vector<std::string> tokens;  // bytes of each id; added tokens: their text; unused ids: empty
  std::vector<std::array<uint32_t, 3>> merges;  // left, right, merged; by rank
  std::vector<AddedToken> added_tokens;
  PreTokenizer pre_tokenizer = PreTokenizer::kGpt2;
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges say
  std::optional<uint32_t> begin_of_text, end_of_text;
};

class Tokenizer {
 public:
  // Throws Error if a byte has no token.
  explicit Tokenizer(Vocabulary vocabulary);

  // PATH of a tokenizer.json, or of the folder that holds one. Throws Error.
  static std::shared_ptr<const Tokenizer> from_file(const std::filesystem::path& path);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  size_t vocab_size() const { return vocabulary_.tokens.size(); }  // largest id + 1
  std::optional<uint32_t> begin_of_text() const { return vocabulary_.begin_of_text; }
  std::optional<uint32_t> end_of_text() const { return vocabulary_.end_of_text; }

  // Id of a token given by its bytes (or text, if added).
  std::optional<uint32_t> id_of(std::string_view token) const;

  // Bytes of the ids. Throws Error for an id outside the vocabulary.
  std::string decode(const uint32_t* ids, size_t count, bool skip_special_tokens) const;

 private:
  friend class Encoder;

  Vocabulary vocabulary_;
  PairTable merges_;
  uint32_t byte_ids_[256];
  std::vector<std::pair<std::string_view, uint32_t>> by_bytes_;  // sorted
  std::vector<bool> added_, special_;
};

class Encoder {
 public:
  explicit Encoder(std::shared_ptr<const Tokenizer> tokenizer);

  // Appends the ids of `text` (any bytes). The texts of added tokens are plain text.
  void encode(std::string_view text, std::vector<uint32_t>& ids);

  // As encode, but every occurrence of an added token's text becomes that token (the longest at a
  // place).
  void encode_with_added_tokens(std::string_view text, std::vector<uint32_t>& ids);

  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  static constexpr size_t kMaxCachedIds = 4;

  // Words of up to 15 bytes and 4 ids, in sets of two slots; the older one of a full set goes.
  struct Slot {
    uint64_t key[2];  // bytes, then length in the last byte; length 0: empty
    uint32_t ids[kMaxCachedIds];
  };

  // These write the ids of one word to `out`, which has room for one per byte (and kMaxCachedIds
  // more), and return how many.
  size_t encode_word(const uint8_t* word, size_t size, bool may_read_16_bytes, uint32_t* out);
  size_t merge_word(const uint8_t* word, size_t size, uint32_t* out) const;
  size_t merge_short(uint32_t* symbols, size_t count) const;
  size_t merge_long(const uint8_t* word, size_t size, uint32_t* out) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<Slot> cache_;
};

}  // namespace mindspeed::data
