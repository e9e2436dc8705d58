// SPDX-License-Identifier: Apache-2.0
#include "data/vocabulary_file.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "data/error.h"
#include "data/rank_file.h"
#include "data/sentencepiece_model.h"
#include "data/tokenizer_json.h"
#include "data/vocab_and_merges.h"

namespace mindspeed::data {
namespace {

constexpr const char* kNames[] = {"tokenizer.json", "vocab.json", "tokenizer.model", "tekken.json"};

std::filesystem::path file_of(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return path;
  for (const char* name : kNames) {
    if (std::filesystem::exists(path / name)) return path / name;
  }
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() == ".tiktoken") return entry.path();
  }
  throw Error(
      path.string() +
      ": the folder must hold a tokenizer.json, vocab.json with merges.txt, tokenizer.model, "
      "tekken.json or *.tiktoken, got none; give the path of a vocabulary file");
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(
        path.string() +
        ": the tokenizer file must exist and be readable; give the path of a vocabulary file or "
        "of its folder");
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Vocabulary read_vocabulary(const std::filesystem::path& given) {
  const std::filesystem::path path = file_of(given);
  const std::string content = content_of(path);
  const std::string where = path.string();
  const size_t first = content.find_first_not_of(" \t\r\n");
  if (first != content.npos && content[first] == '{') {
    if (is_tekken_json(content)) return read_tekken_json(content, where);
    if (path.filename() == "vocab.json") return read_vocab_and_merges(path);
    return read_tokenizer_json(path);
  }
  if (is_rank_file(content)) return read_rank_file(content, where);
  if (path.extension() == ".json") return read_tokenizer_json(path);  // says what is wrong with it
  return read_sentencepiece_model(content, where);
}

}  // namespace mindspeed::data
