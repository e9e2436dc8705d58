// SPDX-License-Identifier: Apache-2.0
// SentencePiece's tokenizer.model: BPE with or without byte fallback, and unigram.
#pragma once
#include <string>
#include <string_view>

#include "data/vocabulary.h"

namespace mindspeed::data {

// Throws Error naming what the model asks for that is not done here.
Vocabulary read_sentencepiece_model(std::string_view content, const std::string& where);

}  // namespace mindspeed::data
