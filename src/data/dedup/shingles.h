// SPDX-License-Identifier: Apache-2.0
// A document as the set of its runs of five words. A word is a run of letters, marks and numbers in
// lower case; in scripts written without spaces (Chinese, Japanese, Thai and their like) each
// character is a word. Punctuation and spacing do not count.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace mindspeed::data {

inline constexpr size_t kShingleWords = 5;

// Hashes of the shingles, in order, with repetitions. A document of one to four words is one
// shingle; one without words has none.
void hash_shingles(std::string_view text, std::vector<uint32_t>& shingles);

}  // namespace mindspeed::data
