// SPDX-License-Identifier: Apache-2.0
// The scanners. Each follows its regular expression alternative by alternative; none backtracks
// over more than one run of characters, so time is linear.
#include "data/pre_tokenizer.h"

#include <bit>
#include <cstring>
#include <utility>

#include "data/character_class.h"
#include "data/utf8.h"

namespace mindspeed::data {
namespace {

constexpr std::pair<PreTokenizer, std::string_view> kExpressions[] = {
    {PreTokenizer::kGpt2,
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {PreTokenizer::kLlama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {PreTokenizer::kQwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {PreTokenizer::kO200k,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {PreTokenizer::kTekken,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {PreTokenizer::kDeepSeek,
     "[!\"#$%&'()*+,\\-./"
     ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]"
     "+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"},
    // Spellings of the same rules found in published files.
    {PreTokenizer::kGpt2,
     R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {PreTokenizer::kLlama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"},
    {PreTokenizer::kLlama3,
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"},
};

class Scanner {
 public:
  Scanner(const uint8_t* text, size_t size) : text_(text), size_(size) {}

  struct Character {
    uint8_t classes;
    uint32_t num_bytes;  // 0 at the end of the text
  };

  [[gnu::always_inline]] Character at(size_t position) const {
    if (position >= size_) return {0, 0};
    const uint8_t byte = text_[position];
    if (byte < 0x80) return {classes_[byte], 1};
    const DecodedCharacter c = decode_utf8(text_ + position, size_ - position);
    return {c.valid ? classes_[c.code] : uint8_t(0), c.num_bytes};
  }

  auto in_text() const {
    return [this](size_t position) { return at(position); };
  }

  bool is(size_t position, char byte) const {
    return position < size_ && text_[position] == uint8_t(byte);
  }

  bool is_newline(size_t position) const { return is(position, '\n') || is(position, '\r'); }

  // End of the longest run from `position` whose characters have one of `wanted` and none of
  // `unwanted` (wanted 0: anything but the unwanted).
  size_t run(size_t position, uint8_t wanted, uint8_t unwanted = 0) const {
    for (;;) {
      const Character c = at(position);
      if (c.num_bytes == 0 || (c.classes & unwanted) || (wanted && !(c.classes & wanted)))
        return position;
      position += c.num_bytes;
    }
  }

  // End of 's 't 're 've 'm 'll 'd at `position`; `position` itself if there is none. Ignoring case
  // includes U+017F, the long s.
  size_t contraction(size_t position, bool ignore_case) const {
    if (!is(position, '\'') || position + 1 >= size_) return position;
    const auto letter = [&](size_t i) -> char {
      if (i >= size_) return 0;
      const uint8_t byte = text_[i];
      return char(ignore_case && byte >= 'A' && byte <= 'Z' ? byte + 32 : byte);
    };
    const char first = letter(position + 1), second = letter(position + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return position + 2;
    if ((first == 'r' || first == 'v') && second == 'e') return position + 3;
    if (first == 'l' && second == 'l') return position + 3;
    if (ignore_case && uint8_t(first) == 0xC5 && uint8_t(second) == 0xBF) return position + 3;
    return position;
  }

  // \s+(?!\S)|\s+ : a run of spaces leaves its last character to the word that follows, unless it
  // is alone. `character_at` says where the text ends.
  template <class At>
  size_t spaces(size_t start, At character_at) const {
    size_t last = start, end = start;
    Character c = character_at(end);
    for (; c.num_bytes != 0 && (c.classes & kSpace); c = character_at(end)) {
      last = end;
      end += c.num_bytes;
    }
    return c.num_bytes == 0 || last == start ? end : last;
  }

  // \s*[\r\n]+|\s+(?!\S)|\s+ : a run of spaces that holds newlines ends after the last of them.
  template <class At>
  size_t spaces_to_newline(size_t start, At character_at) const {
    size_t after_newline = 0;
    for (size_t end = start;;) {
      const Character c = character_at(end);
      if (c.num_bytes == 0 || !(c.classes & kSpace)) break;
      end += c.num_bytes;
      if (is_newline(end - c.num_bytes)) after_newline = end;
    }
    return after_newline ? after_newline : spaces(start, character_at);
  }

  size_t gpt2(size_t start) const {
    if (const size_t end = contraction(start, false); end != start) return end;
    Character c = at(start);
    size_t position = start;
    if (is(start, ' ')) {
      const Character next = at(start + 1);
      if (next.num_bytes == 0 || (next.classes & kSpace)) return spaces(start, in_text());
      position = start + 1;
      c = next;
    } else if (c.classes & kSpace) {
      return spaces(start, in_text());
    }
    if (c.classes & kLetter) return letters(position + c.num_bytes);
    if (c.classes & kNumber) return run(position + c.num_bytes, kNumber);
    return run(position + c.num_bytes, 0, kLetter | kNumber | kSpace);
  }

  size_t llama3(size_t start, int digits) const {
    if (const size_t end = contraction(start, true); end != start) return end;
    const Character c = at(start);
    if (c.classes & kLetter) return letters(start + c.num_bytes);
    if (c.classes & kNumber) return numbers(start, digits);
    if (!is_newline(start) && (at(start + c.num_bytes).classes & kLetter)) {
      return letters(start + c.num_bytes);
    }
    return symbols_or_spaces(start, false);
  }

  size_t o200k(size_t start, int digits, bool contractions) const {
    const Character c = at(start);
    if (c.classes & kNumber) return numbers(start, digits);
    const bool may_be_prefix = !(c.classes & kLetter) && !is_newline(start);
    size_t end = start;
    if (may_be_prefix) end = cased_word(start + c.num_bytes, false);
    if (end == start || end == start + c.num_bytes) end = cased_word(start, false);
    if (end == start && may_be_prefix) {
      end = cased_word(start + c.num_bytes, true);
      if (end == start + c.num_bytes) end = start;
    }
    if (end == start) end = cased_word(start, true);
    if (end != start) return contractions ? contraction(end, true) : end;
    return symbols_or_spaces(start, true);
  }

  // Digits and Chinese and Japanese text end what the last of the three expressions sees.
  size_t deepseek(size_t start) const {
    if (at(start).classes & kNumber) return numbers(start, 3);
    if (is_chinese(start)) {
      size_t end = start;
      while (is_chinese(end)) end += 3;
      return end;
    }
    const auto inside = [this](size_t position) -> Character {
      const Character c = at(position);
      return (c.classes & kNumber) || is_chinese(position) ? Character{0, 0} : c;
    };
    const Character c = inside(start);
    if (c.classes & (kLetter | kMark)) return run_inside(start, kLetter | kMark, inside);
    const bool ascii_symbol = c.num_bytes == 1 && (c.classes & kSymbol);
    if (ascii_symbol && is_ascii_letter(start + 1)) {
      size_t end = start + 1;
      while (is_ascii_letter(end)) ++end;
      return end;
    }
    const uint8_t next = inside(start + c.num_bytes).classes;
    const bool may_be_prefix = !(c.classes & kSymbol) && !is_newline(start);
    if (may_be_prefix && (next & (kLetter | kMark))) {
      return run_inside(start + c.num_bytes, kLetter | kMark, inside);
    }
    if ((c.classes & kSymbol) || (is(start, ' ') && (next & kSymbol))) {
      size_t end = run_inside(is(start, ' ') ? start + 1 : start, kSymbol, inside);
      while (is_newline(end)) ++end;
      return end;
    }
    if (c.classes & kSpace) return spaces_to_newline(start, inside);
    return unmatched(start, inside);
  }

 private:
  template <class At>
  size_t run_inside(size_t position, uint8_t wanted, At character_at) const {
    for (;;) {
      const Character c = character_at(position);
      if (c.num_bytes == 0 || !(c.classes & wanted)) return position;
      position += c.num_bytes;
    }
  }

  // Characters that no alternative matches (controls) up to one that begins a match.
  template <class At>
  size_t unmatched(size_t position, At character_at) const {
    for (;;) {
      position += character_at(position).num_bytes;
      const Character c = character_at(position);
      if (c.num_bytes == 0 || (c.classes & (kLetter | kMark | kSymbol | kSpace))) return position;
      const uint8_t next = character_at(position + c.num_bytes).classes;
      if (next & (kLetter | kMark)) return position;
    }
  }

  bool is_ascii_letter(size_t position) const {
    return position < size_ && uint8_t((text_[position] | 0x20) - 'a') < 26;
  }

  // [一-龥぀-ゟ゠-ヿ]
  bool is_chinese(size_t position) const {
    if (position >= size_ || text_[position] < 0xE3 || text_[position] > 0xE9) return false;
    const char32_t code = decode_utf8(text_ + position, size_ - position).code;
    return (code >= 0x4E00 && code <= 0x9FA5) || (code >= 0x3040 && code <= 0x30FF);
  }

  // End of the run of letters from `position`: sixteen ASCII letters at a time, whole Chinese
  // characters, else one by one.
  size_t letters(size_t position) const {
    for (;;) {
      position = ascii_letters(position);
      if (position >= size_) return size_;
      if (text_[position] < 0x80) {
        if (!is_ascii_letter(position)) return position;
        ++position;
        continue;
      }
      const Character c = at(position);
      if (!(c.classes & kLetter)) return position;
      position += c.num_bytes;
    }
  }

  // End of the ASCII letters from `position`, eight at a time; near the end of the text a place
  // before it.
  size_t ascii_letters(size_t position) const {
    constexpr uint64_t kEach = 0x0101010101010101ull, kHigh = 0x80 * kEach;
    while (position + 8 <= size_) {
      uint64_t eight;
      std::memcpy(&eight, text_ + position, sizeof eight);
      const uint64_t folded = (eight | 0x20 * kEach) & ~kHigh;
      const uint64_t from_a = folded + (0x80 - 'a') * kEach;  // high bit: at least 'a'
      const uint64_t above_z = folded + (0x80 - 'z' - 1) * kEach;
      const uint64_t others = ~(from_a & ~above_z & ~eight) & kHigh;
      if (others) return position + size_t(std::countr_zero(others)) / 8;
      position += 8;
    }
    return position;
  }

  size_t numbers(size_t position, int digits) const {
    for (int i = 0; i < digits; ++i) {
      const Character c = at(position);
      if (c.num_bytes == 0 || !(c.classes & kNumber)) break;
      position += c.num_bytes;
    }
    return position;
  }

  //  ?[^\s\p{L}\p{N}]+[\r\n]* (with / too for o200k), else spaces
  size_t symbols_or_spaces(size_t start, bool slash) const {
    const uint8_t not_symbol = kLetter | kNumber | kSpace;
    const size_t first = is(start, ' ') ? start + 1 : start;
    const Character c = at(first);
    if (c.num_bytes == 0 || (c.classes & not_symbol)) return spaces_to_newline(start, in_text());
    size_t end = run(first, 0, not_symbol);
    while (is_newline(end) || (slash && is(end, '/'))) ++end;
    return end;
  }

  // Capitals are [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], smalls [\p{Ll}\p{Lm}\p{Lo}\p{M}].
  static bool capital(Character c) {
    return (c.classes & (kLetter | kMark)) && !(c.classes & kLower);
  }
  static bool small(Character c) {
    return (c.classes & (kLetter | kMark)) && !(c.classes & kUpper);
  }

  // capitals* smalls+ or, when `only_capitals`, capitals+ smalls*; `start` when there is no match.
  size_t cased_word(size_t start, bool only_capitals) const {
    size_t end = start, after_both = start;  // after_both: end of the last one that is also a small
    for (Character c = at(end); c.num_bytes && capital(c); c = at(end)) {
      end += c.num_bytes;
      if (small(c)) after_both = end;
    }
    const size_t end_of_capitals = end;
    for (Character c = at(end); c.num_bytes && small(c); c = at(end)) end += c.num_bytes;
    if (only_capitals) return end_of_capitals == start ? start : end;
    return end != end_of_capitals ? end : after_both;
  }

  const uint8_t* text_;
  size_t size_;
  const uint8_t* classes_ = character_classes();
};

}  // namespace

std::optional<PreTokenizer> pre_tokenizer_of(std::string_view regular_expression) {
  for (const auto& [kind, expression] : kExpressions) {
    if (expression == regular_expression) return kind;
  }
  return std::nullopt;
}

std::string_view regular_expression_of(PreTokenizer kind) {
  for (const auto& [candidate, expression] : kExpressions) {
    if (candidate == kind) return expression;
  }
  return {};
}

size_t cut_words(
    PreTokenizer kind, const uint8_t* text, size_t size, size_t start, std::span<size_t> ends) {
  const Scanner scanner(text, size);
  const auto cut = [&](auto word_end) {
    size_t count = 0;
    for (size_t position = start; position < size && count < ends.size(); ++count) {
      position = ends[count] = word_end(position);
    }
    return count;
  };
  switch (kind) {
    case PreTokenizer::kGpt2:
      return cut([&](size_t position) { return scanner.gpt2(position); });
    case PreTokenizer::kLlama3:
      return cut([&](size_t position) { return scanner.llama3(position, 3); });
    case PreTokenizer::kQwen2:
      return cut([&](size_t position) { return scanner.llama3(position, 1); });
    case PreTokenizer::kO200k:
      return cut([&](size_t position) { return scanner.o200k(position, 3, true); });
    case PreTokenizer::kTekken:
      return cut([&](size_t position) { return scanner.o200k(position, 1, false); });
    case PreTokenizer::kDeepSeek:
      return cut([&](size_t position) { return scanner.deepseek(position); });
  }
  return 0;
}

}  // namespace mindspeed::data
