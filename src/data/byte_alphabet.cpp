// SPDX-License-Identifier: Apache-2.0
// Conversions between bytes and the printable characters that stand for them.
#include "data/byte_alphabet.h"

#include "data/utf8.h"

namespace mindspeed::data {

const std::array<char32_t, 256>& byte_alphabet() {
  static const std::array<char32_t, 256> alphabet = [] {
    std::array<char32_t, 256> table{};
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable =
          (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      table[byte] = printable ? char32_t(byte) : next++;
    }
    return table;
  }();
  return alphabet;
}

std::string bytes_to_printable(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_utf8(text, byte_alphabet()[uint8_t(byte)]);
  return text;
}

std::optional<std::string> printable_to_bytes(std::string_view text) {
  static const std::array<int16_t, 0x144> byte_of = [] {
    std::array<int16_t, 0x144> table;
    table.fill(-1);
    for (int byte = 0; byte < 256; ++byte) table[byte_alphabet()[byte]] = int16_t(byte);
    return table;
  }();
  std::string bytes;
  const auto* data = reinterpret_cast<const uint8_t*>(text.data());
  for (size_t i = 0; i < text.size();) {
    const DecodedCharacter c = decode_utf8(data + i, text.size() - i);
    if (!c.valid || c.code >= byte_of.size() || byte_of[c.code] < 0) return std::nullopt;
    bytes += char(byte_of[c.code]);
    i += c.num_bytes;
  }
  return bytes;
}

}  // namespace mindspeed::data
