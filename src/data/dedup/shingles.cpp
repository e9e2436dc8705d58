// SPDX-License-Identifier: Apache-2.0
// A word's hash grows byte by byte; a shingle's is a polynomial over its words' hashes, so that a
// word more and a word less is one multiplication.
#include "data/dedup/shingles.h"

#include <utf8proc.h>

#include <array>

#include "data/character_class.h"
#include "data/utf8.h"

namespace mindspeed::data {
namespace {

constexpr uint64_t kPrime = 0x9E3779B97F4A7C15;
constexpr uint64_t kNoWord = 0xCBF29CE484222325;  // where a word's hash starts

// Lower case of ASCII letters and digits; 0 for what is part of no word.
constexpr std::array<uint8_t, 128> lower_case() {
  std::array<uint8_t, 128> table{};
  for (uint8_t c = '0'; c <= '9'; ++c) table[c] = c;
  for (uint8_t c = 'a'; c <= 'z'; ++c) table[c] = table[c - 32] = c;
  return table;
}
constexpr std::array<uint8_t, 128> kLowerCase = lower_case();

bool is_word_alone(char32_t code) {
  return (code >= 0x2E80 && code <= 0x30FF) ||  // radicals, kana
         (code >= 0x3400 && code <= 0x9FFF) ||  // ideographs
         (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x20000 && code <= 0x3FFFF) ||
         (code >= 0x0E00 && code <= 0x0EFF) ||  // Thai, Lao
         (code >= 0x1000 && code <= 0x109F) ||
         (code >= 0x1780 && code <= 0x17FF);  // Burmese, Khmer
}

uint64_t mix(uint64_t hash) {
  hash = (hash ^ (hash >> 32)) * 0xD6E8FEB86659FD93;
  return hash ^ (hash >> 32);
}

uint64_t with(uint64_t word, uint64_t part) {
  return (word ^ part) * kPrime;
}

class Window {
 public:
  explicit Window(std::vector<uint32_t>& shingles) : shingles_(shingles) {}

  void push(uint64_t word) {
    word = mix(word);
    uint64_t& oldest = words_[num_words_ % kShingleWords];
    hash_ = hash_ * kPrime + word - oldest * kOut;
    oldest = word;
    if (++num_words_ >= kShingleWords) emit();
  }

  void finish() {
    if (num_words_ > 0 && num_words_ < kShingleWords) emit();
  }

 private:
  static constexpr uint64_t kOut = kPrime * kPrime * kPrime * kPrime * kPrime;
  static_assert(kShingleWords == 5);

  void emit() { shingles_.push_back(uint32_t(mix(hash_ + kNoWord))); }

  std::vector<uint32_t>& shingles_;
  std::array<uint64_t, kShingleWords> words_{};
  uint64_t hash_ = 0;
  uint64_t num_words_ = 0;
};

}  // namespace

void hash_shingles(std::string_view text, std::vector<uint32_t>& shingles) {
  shingles.clear();
  const uint8_t* classes = character_classes();
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  Window window(shingles);
  uint64_t word = kNoWord;
  const auto end_word = [&] {
    if (word != kNoWord) window.push(word);
    word = kNoWord;
  };
  for (size_t i = 0; i < text.size();) {
    if (bytes[i] < 0x80) {
      const uint8_t letter = kLowerCase[bytes[i++]];
      if (letter) {
        word = with(word, letter);
      } else {
        end_word();
      }
      continue;
    }
    const DecodedCharacter c = decode_utf8(bytes + i, text.size() - i);
    i += c.num_bytes;
    const uint8_t of_character = c.valid ? classes[c.code] : uint8_t(0);
    if (!(of_character & (kLetter | kMark | kNumber))) {
      end_word();
    } else if (is_word_alone(c.code)) {
      end_word();
      window.push(with(kNoWord, c.code));
    } else {
      const bool upper = (of_character & kUpper) != 0;
      word = with(word, upper ? uint64_t(utf8proc_tolower(int32_t(c.code))) : uint64_t(c.code));
    }
  }
  end_word();
  window.finish();
}

}  // namespace mindspeed::data
