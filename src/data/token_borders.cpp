// SPDX-License-Identifier: Apache-2.0
// A token may begin or end within a character: such borders are known by their two bytes alone.
#include "data/token_borders.h"

namespace mindspeed::data {
namespace {

// SentencePiece writes a space as U+2581; both are the same here.
DecodedCharacter character_at(const uint8_t* text, size_t size) {
  DecodedCharacter c = decode_utf8(text, size);
  if (c.code == 0x2581) c.code = ' ';
  return c;
}

}  // namespace

void TokenBorders::add_token(std::string_view token) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(token.data());
  DecodedCharacter left{0, 0, false};
  for (size_t i = 0; i < token.size();) {
    const DecodedCharacter right = character_at(bytes + i, token.size() - i);
    if (i > 0 && left.valid && right.valid) {
      const size_t bit = hash(left.code, right.code);
      inside_[bit / 64] |= uint64_t(1) << (bit % 64);
    } else if (i > 0) {
      partial_[bytes[i - 1] * 256 + bytes[i]] = 1;
    }
    left = right;
    i += right.num_bytes;
  }
}

size_t TokenBorders::cut(
    const uint8_t* text, size_t size, size_t start, std::span<size_t> ends) const {
  size_t count = 0;
  DecodedCharacter left = character_at(text + start, size - start);
  for (size_t i = start + left.num_bytes; i < size && count < ends.size();) {
    const DecodedCharacter right = character_at(text + i, size - i);
    if (!may_join(left, right, text + i)) ends[count++] = i;
    left = right;
    i += right.num_bytes;
  }
  if (count < ends.size()) ends[count++] = size;
  return count;
}

}  // namespace mindspeed::data
