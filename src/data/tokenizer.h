// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back. A Tokenizer is immutable and may be shared by threads; an Encoder
// holds the scratch memory and the word cache of one thread.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/bpe_merger.h"
#include "data/token_borders.h"
#include "data/unigram.h"
#include "data/vocabulary.h"
#include "data/word_cache.h"

namespace mindspeed::data {

class Tokenizer {
 public:
  // Throws Error if a byte has no token.
  explicit Tokenizer(Vocabulary vocabulary);
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // PATH of a vocabulary file of any format (vocabulary_file.h), or of its folder. Throws Error.
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
  void prepare_words();
  void prepare_unigram();

  Vocabulary vocabulary_;
  std::unordered_map<std::string_view, uint32_t> by_bytes_;
  std::vector<bool> special_, fallback_;
  std::optional<BpeMerger> merger_;
  std::optional<Unigram> unigram_;
  TokenBorders borders_;
  WordCache known_words_;  // tokens that are words: where every encoder's cache begins
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
  void encode_section(std::string_view text, bool at_start, std::vector<uint32_t>& ids);
  void encode_bytes(std::string_view text, std::vector<uint32_t>& ids);
  void encode_characters(std::string_view text, std::vector<uint32_t>& ids);
  void encode_unigram(std::string_view text, std::vector<uint32_t>& ids);

  // Encodes the words text[start, ends[0]), text[ends[0], ends[1]) ...
  void encode_words(
      std::string_view text,
      size_t start,
      const size_t* ends,
      size_t count,
      std::vector<uint32_t>& ids);
  size_t cut_and_encode(std::string_view word, uint32_t* out);
  size_t encode_long_word(std::string_view word, uint32_t* out);
  size_t encode_piece(std::string_view word, bool is_piece, uint32_t* out);
  size_t encode_new(
      std::string_view word, WordCache::Key key, size_t set, bool is_piece, uint32_t* out);

  std::shared_ptr<const Tokenizer> tokenizer_;
  WordCache cache_;
  LongWordCache long_words_;
  std::string normalized_;
  std::vector<Unigram::Part> parts_;
};

}  // namespace mindspeed::data
