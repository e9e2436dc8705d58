// SPDX-License-Identifier: Apache-2.0
// The two files are put together as the tokenizer.json they stand for, which tokenizer_json.h
// reads.
#include "data/vocab_and_merges.h"

#include <simdjson.h>

#include <fstream>
#include <iterator>
#include <string>

#include "data/error.h"
#include "data/json.h"
#include "data/tokenizer_json.h"

namespace mindspeed::data {
namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(
        path.string() +
        ": vocab.json and merges.txt must lie in one folder, this one is missing; use the model's "
        "tokenizer.json if it has one");
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

PreTokenizer kind_of(const std::filesystem::path& folder) {
  const auto path = folder / "tokenizer_config.json";
  if (!std::filesystem::exists(path)) return PreTokenizer::kGpt2;
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  std::string_view name;
  if (parser.load(path.string()).get(root) || root["tokenizer_class"].get(name)) {
    return PreTokenizer::kGpt2;
  }
  if (name.starts_with("GPT2") || name.starts_with("Roberta")) return PreTokenizer::kGpt2;
  if (name.starts_with("Qwen2")) return PreTokenizer::kQwen2;
  throw Error(
      path.string() +
      ": tokenizer_class must be GPT2Tokenizer or Qwen2Tokenizer for a vocab.json, "
      "got " +
      std::string(name) + "; use the model's tokenizer.json");
}

std::string merges_as_json(const std::string& text) {
  std::string json = "[";
  for (size_t start = 0; start < text.size();) {
    size_t end = text.find('\n', start);
    if (end == text.npos) end = text.size();
    std::string line = text.substr(start, end - start);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !(start == 0 && line.starts_with("#version"))) {
      if (json.size() > 1) json += ',';
      json += json_quote(line);
    }
    start = end + 1;
  }
  return json += "]";
}

}  // namespace

Vocabulary read_vocab_and_merges(const std::filesystem::path& vocab_json) {
  const auto folder = vocab_json.parent_path();
  const PreTokenizer kind = kind_of(folder);
  std::string json = R"({"model": {"type": "BPE", "vocab": )" + content_of(vocab_json);
  json += ", \"merges\": " + merges_as_json(content_of(folder / "merges.txt"));
  json += "}, \"pre_tokenizer\": " + pre_tokenizer_json(kind);
  if (kind == PreTokenizer::kQwen2) json += R"(, "normalizer": {"type": "NFC"})";
  return parse_tokenizer_json(json += "}", vocab_json);
}

}  // namespace mindspeed::data
