// SPDX-License-Identifier: Apache-2.0
// Hugging Face's tokenizer.json for BPE vocabularies, byte-level or over characters with byte
// fallback.
#pragma once
#include <filesystem>
#include <string>

#include "data/vocabulary.h"

namespace mindspeed::data {

// PATH of the file or of the folder that holds it; tokenizer_config.json beside it may name the
// begin and end tokens. Throws Error naming what the file asks for that this reader does not do.
Vocabulary read_tokenizer_json(const std::filesystem::path& path);

// As if `path` held `json`.
Vocabulary parse_tokenizer_json(const std::string& json, const std::filesystem::path& path);

// How a tokenizer.json says that text is cut so.
std::string pre_tokenizer_json(PreTokenizer kind);

// The file's text; the tokenizers library loads it and encodes identically. Byte-level BPE only:
// throws Error for others.
std::string tokenizer_json(const Vocabulary& vocabulary);

// Writes it under a temporary name and renames.
void write_tokenizer_json(const Vocabulary& vocabulary, const std::filesystem::path& path);

}  // namespace mindspeed::data
