// SPDX-License-Identifier: Apache-2.0
// Unicode classes of characters, as the pre-tokenisers' regular expressions name them.
#pragma once
#include <cstdint>

namespace mindspeed::data {

enum CharacterClass : uint8_t {
  kLetter = 1,   // \p{L}
  kNumber = 2,   // \p{N}
  kSpace = 4,    // \s
  kMark = 8,     // \p{M}
  kUpper = 16,   // \p{Lu} or \p{Lt}
  kLower = 32,   // \p{Ll}
  kSymbol = 64,  // \p{P} or \p{S}
};

// 0x110000 bytes, indexed by code point.
const uint8_t* character_classes();

}  // namespace mindspeed::data
