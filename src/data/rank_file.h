// SPDX-License-Identifier: Apache-2.0
// Vocabularies that list tokens by rank and no merges (tiktoken's files and Mistral's tekken.json):
// any two neighbours merge that together are a token, the lowest rank first.
#pragma once
#include <string>
#include <string_view>

#include "data/vocabulary.h"

namespace mindspeed::data {

// Lines of "BASE64 RANK".
bool is_rank_file(std::string_view content);

// The file does not say how text is cut or which special tokens there are; the number of its tokens
// tells whose it is (rank_families in rank_file.cpp). Throws Error if it is nobody's.
Vocabulary read_rank_file(std::string_view content, const std::string& where);

bool is_tekken_json(std::string_view content);
Vocabulary read_tekken_json(std::string_view content, const std::string& where);

}  // namespace mindspeed::data
