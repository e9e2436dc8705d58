// SPDX-License-Identifier: Apache-2.0
// Reads a vocabulary of any known format: tokenizer.json, vocab.json with merges.txt beside it,
// .tiktoken (and Llama 3's tokenizer.model, which is one), SentencePiece's tokenizer.model,
// Mistral's tekken.json; or the folder that holds one of them. The content decides, not the name.
#pragma once
#include <filesystem>

#include "data/vocabulary.h"

namespace mindspeed::data {

// Throws Error naming what the file asks for that is not done here.
Vocabulary read_vocabulary(const std::filesystem::path& path);

}  // namespace mindspeed::data
