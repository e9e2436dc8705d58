// SPDX-License-Identifier: Apache-2.0
// Hugging Face's tokenizer.json for byte-level BPE vocabularies.
#pragma once
#include <filesystem>
#include <string>

#include "data/tokenizer.h"

namespace mindspeed::data {

// PATH of the file or of the folder that holds it; tokenizer_config.json and config.json beside it
// may name the begin and end tokens. Throws Error naming what the file asks for that this reader
// does not do.
Vocabulary read_tokenizer_json(const std::filesystem::path& path);

// The file's text; the tokenizers library loads it and encodes identically.
std::string tokenizer_json(const Vocabulary& vocabulary);

// Writes it under a temporary name and renames.
void write_tokenizer_json(const Vocabulary& vocabulary, const std::filesystem::path& path);

}  // namespace mindspeed::data
