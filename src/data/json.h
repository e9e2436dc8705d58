// SPDX-License-Identifier: Apache-2.0
// Small things around simdjson: quoting, and lone surrogates.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace mindspeed::data {

// `text` (valid UTF-8) as a JSON string with its quotes.
std::string json_quote(std::string_view text);

// Replaces in JSON text every \uXXXX that is half of a surrogate pair without its other half by
// \uFFFD, in place; returns how many. simdjson, as the standard demands, refuses them; real corpora
// hold some.
uint64_t replace_lone_surrogates(char* json, size_t size);

}  // namespace mindspeed::data
