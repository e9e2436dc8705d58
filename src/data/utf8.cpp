// SPDX-License-Identifier: Apache-2.0
// UTF-8: search for invalid bytes, encoding, replacement.
#include "data/utf8.h"

#include <cstring>

namespace mindspeed::data {

size_t find_invalid_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  size_t i = 0;
  while (i < text.size()) {
    uint64_t eight;
    while (i + sizeof eight <= text.size()) {  // eight ASCII bytes at a time
      std::memcpy(&eight, bytes + i, sizeof eight);
      if (eight & 0x8080808080808080ull) break;
      i += sizeof eight;
    }
    if (i == text.size()) break;
    const DecodedCharacter c = decode_utf8(bytes + i, text.size() - i);
    if (!c.valid) return i;
    i += c.num_bytes;
  }
  return text.size();
}

void append_utf8(std::string& text, char32_t code) {
  if (code < 0x80) {
    text += char(code);
  } else if (code < 0x800) {
    text += char(0xC0 | (code >> 6));
    text += char(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    text += char(0xE0 | (code >> 12));
    text += char(0x80 | ((code >> 6) & 0x3F));
    text += char(0x80 | (code & 0x3F));
  } else {
    text += char(0xF0 | (code >> 18));
    text += char(0x80 | ((code >> 12) & 0x3F));
    text += char(0x80 | ((code >> 6) & 0x3F));
    text += char(0x80 | (code & 0x3F));
  }
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  for (size_t i = 0; i < text.size();) {
    const DecodedCharacter c = decode_utf8(bytes + i, text.size() - i);
    append_utf8(out, c.code);
    i += c.num_bytes;
  }
  return out;
}

}  // namespace mindspeed::data
