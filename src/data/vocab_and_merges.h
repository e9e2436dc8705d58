// SPDX-License-Identifier: Apache-2.0
// GPT-2's two files: vocab.json (token: id) and merges.txt (two tokens a line, by rank).
#pragma once
#include <filesystem>

#include "data/vocabulary.h"

namespace mindspeed::data {

// PATH of vocab.json; merges.txt lies beside it. The files do not say how text is cut: GPT-2's way,
// or the way of the family that tokenizer_config.json beside them names. Throws Error.
Vocabulary read_vocab_and_merges(const std::filesystem::path& vocab_json);

}  // namespace mindspeed::data
