// SPDX-License-Identifier: Apache-2.0
// Pre-tokenisation: cuts text into the words within which BPE merges, by hand-written scanners that
// equal the vocabularies' regular expressions. A byte that is no valid UTF-8 counts as a symbol of
// its own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace mindspeed::data {

enum class PreTokenizer {
  kGpt2,      // GPT-2, RoBERTa, our own vocabularies
  kLlama3,    // Llama 3; cl100k (GPT-4) cuts alike
  kQwen2,     // Qwen 2 and later: as Llama 3, each digit alone
  kO200k,     // GPT-4o: words cut where case changes
  kTekken,    // Mistral's tekken: as o200k, each digit alone, no contractions
  kDeepSeek,  // DeepSeek V3 and later: digits by three, Chinese and Japanese apart
};

// The pre-tokeniser whose regular expression this is; nothing if it is none of ours.
std::optional<PreTokenizer> pre_tokenizer_of(std::string_view regular_expression);

// The regular expression, as published with the vocabulary. kDeepSeek's is the last of three.
std::string_view regular_expression_of(PreTokenizer kind);

// What DeepSeek's text is cut by before, in this order.
inline constexpr std::string_view kDeepSeekDigits = R"(\p{N}{1,3})";
inline constexpr std::string_view kDeepSeekChinese = "[一-龥\u3040-ゟ゠-ヿ]+";

// Ends of the words that follow one another from `start`, as many as `ends` has room for or the
// text has. Returns how many were written.
size_t cut_words(
    PreTokenizer kind, const uint8_t* text, size_t size, size_t start, std::span<size_t> ends);

}  // namespace mindspeed::data
