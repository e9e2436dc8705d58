// SPDX-License-Identifier: Apache-2.0
// UTF-8, strictly as Unicode defines it (no surrogates, no overlong forms, at most U+10FFFF).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mindspeed::data {

inline constexpr char32_t kReplacement = 0xFFFD;

struct DecodedCharacter {
  char32_t code;       // kReplacement when the byte at the start begins no valid character
  uint32_t num_bytes;  // 1 for such a byte
  bool valid;
};

// The character that begins at text[0]; `text` must not be empty.
inline DecodedCharacter decode_utf8(const uint8_t* text, size_t size) {
  constexpr DecodedCharacter kInvalid{kReplacement, 1, false};
  const uint8_t a = text[0];
  if (a < 0x80) return {a, 1, true};
  const auto continues = [&](size_t i) { return i < size && (text[i] & 0xC0) == 0x80; };
  if (a < 0xC2 || !continues(1)) return kInvalid;
  const char32_t b = text[1] & 0x3F;
  if (a < 0xE0) return {(char32_t(a & 0x1F) << 6) | b, 2, true};
  if (!continues(2)) return kInvalid;
  const char32_t c = text[2] & 0x3F;
  if (a < 0xF0) {
    const char32_t code = (char32_t(a & 0x0F) << 12) | (b << 6) | c;
    if (code < 0x800 || (code >= 0xD800 && code < 0xE000)) return kInvalid;
    return {code, 3, true};
  }
  if (a > 0xF4 || !continues(3)) return kInvalid;
  const char32_t code = (char32_t(a & 0x07) << 18) | (b << 12) | (c << 6) | (text[3] & 0x3F);
  if (code < 0x10000 || code > 0x10FFFF) return kInvalid;
  return {code, 4, true};
}

// Position of the first byte that begins no valid character; text.size() if there is none.
size_t find_invalid_utf8(std::string_view text);

void append_utf8(std::string& text, char32_t code);

// `text` with every invalid byte replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace mindspeed::data
