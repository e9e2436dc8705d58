// SPDX-License-Identifier: Apache-2.0
// GPT-2's way to write bytes as printable characters in vocabulary files: printable Latin-1 as
// itself, the other 68 bytes as U+0100 onwards.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mindspeed::data {

// code point that stands for each byte
const std::array<char32_t, 256>& byte_alphabet();

std::string bytes_to_printable(std::string_view bytes);

// Nothing if a character stands for no byte (added tokens are written as plain text).
std::optional<std::string> printable_to_bytes(std::string_view text);

}  // namespace mindspeed::data
