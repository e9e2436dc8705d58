// SPDX-License-Identifier: Apache-2.0
// Reading is strict: a setting that would change ids and is not implemented is an error, never
// ignored.
#include "data/tokenizer_json.h"

#include <simdjson.h>

#include <algorithm>
#include <unordered_map>

#include "data/byte_alphabet.h"
#include "data/error.h"
#include "data/json.h"
#include "data/output_file.h"

namespace mindspeed::data {
namespace {

using simdjson::dom::element;

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : where_(path.string()) {
    const auto error = parser_.load(where_).get(root_);
    if (error == simdjson::IO_ERROR) {
      fail(
          "the tokenizer file must exist and be readable; give the path of a tokenizer.json or its "
          "folder");
    }
    if (error) fail(std::string("must be JSON: ") + simdjson::error_message(error));
  }

  Vocabulary read() {
    element model;
    if (root_["model"].get(model)) fail("must have a \"model\"; is this a tokenizer.json?");
    refuse_if_set(
        model, {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"});
    if (const auto type = text(model, "type"); !type.empty() && type != "BPE") {
      fail("model.type must be BPE, got " + std::string(type));
    }
    if (flag(model, "byte_fallback")) fail("model.byte_fallback must be false (byte-level BPE)");
    element normalizer;
    if (!root_["normalizer"].get(normalizer) && !normalizer.is_null()) {
      fail("normalizer must be null, got " + simdjson::minify(normalizer));
    }
    vocabulary_.ignore_merges = flag(model, "ignore_merges");
    read_pre_tokenizer();
    read_tokens(model);
    read_merges(model);
    find_end_of_text();
    return std::move(vocabulary_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(where_ + ": " + what); }

  std::string_view text(element object, std::string_view key) const {
    std::string_view value;
    return object[key].get(value) ? std::string_view() : value;
  }

  bool flag(element object, std::string_view key, bool otherwise = false) const {
    bool value;
    return object[key].get(value) ? otherwise : value;
  }

  void refuse_if_set(element object, std::initializer_list<std::string_view> keys) const {
    for (const std::string_view key : keys) {
      element value;
      if (object[key].get(value) || value.is_null()) continue;
      std::string_view string;
      if (!value.get(string) && string.empty()) continue;
      fail("model." + std::string(key) + " must be null, got " + simdjson::minify(value));
    }
  }

  // ByteLevel with its own expression (GPT-2), or a Split by a known one and then ByteLevel.
  void read_pre_tokenizer() {
    element pre_tokenizer;
    if (root_["pre_tokenizer"].get(pre_tokenizer) || pre_tokenizer.is_null()) {
      fail("pre_tokenizer must be ByteLevel, or Split and ByteLevel, got none");
    }
    simdjson::dom::array parts;
    bool byte_level = false, split = false;
    const auto part = [&](element one) {
      const auto type = text(one, "type");
      if (type == "ByteLevel") {
        byte_level = true;
        if (flag(one, "add_prefix_space")) fail("pre_tokenizer.add_prefix_space must be false");
        if (flag(one, "use_regex", true)) {
          if (split) fail("pre_tokenizer: Split followed by ByteLevel must set use_regex to false");
          vocabulary_.pre_tokenizer = PreTokenizer::kGpt2;
          split = true;
        }
      } else if (type == "Split" && !split && text(one, "behavior") == "Isolated") {
        std::string_view expression;
        if (one["pattern"]["Regex"].get(expression)) fail("pre_tokenizer.pattern must be a Regex");
        const auto kind = pre_tokenizer_of(expression);
        if (!kind) {
          fail(
              "pre_tokenizer's expression must be that of GPT-2, Llama 3 (cl100k), Qwen 2 or "
              "o200k, got " +
              std::string(expression));
        }
        vocabulary_.pre_tokenizer = *kind;
        split = true;
      } else {
        fail(
            "pre_tokenizer must be ByteLevel, or one Split and ByteLevel, got " +
            simdjson::minify(one));
      }
    };
    if (text(pre_tokenizer, "type") == "Sequence" && !pre_tokenizer["pretokenizers"].get(parts)) {
      for (element one : parts) part(one);
    } else {
      part(pre_tokenizer);
    }
    if (!byte_level || !split) fail("pre_tokenizer must cut words and map bytes (ByteLevel)");
  }

  void place(uint64_t id, std::string token) {
    constexpr uint64_t kMostTokens = 1u << 24;
    if (id >= kMostTokens) fail("token ids must be below 16777216, got " + std::to_string(id));
    if (id >= vocabulary_.tokens.size()) vocabulary_.tokens.resize(id + 1);
    vocabulary_.tokens[id] = std::move(token);
  }

  void read_tokens(element model) {
    simdjson::dom::object tokens;
    if (model["vocab"].get(tokens)) fail("model.vocab must be an object of token: id");
    std::vector<std::pair<uint64_t, std::string_view>> not_bytes;
    for (const auto field : tokens) {
      uint64_t id;
      if (field.value.get(id))
        fail("model.vocab: ids must be whole numbers, at " + json_quote(field.key));
      auto bytes = printable_to_bytes(field.key);
      if (!bytes) {
        not_bytes.emplace_back(id, field.key);
        continue;
      }
      ids_.emplace(field.key, uint32_t(id));
      place(id, std::move(*bytes));
    }
    simdjson::dom::array added;
    if (!root_["added_tokens"].get(added)) {
      for (element one : added) {
        uint64_t id;
        const auto content = text(one, "content");
        if (one["id"].get(id) || content.empty())
          fail("added_tokens: each must have id and content");
        place(id, std::string(content));
        vocabulary_.added_tokens.push_back(
            {std::string(content), uint32_t(id), flag(one, "special")});
      }
    }
    for (const auto& [id, token] : not_bytes) {  // such a token can only be an added one
      if (id >= vocabulary_.tokens.size() || vocabulary_.tokens[id] != token) {
        fail(
            "model.vocab: every token must be made of the byte alphabet, got " + json_quote(token));
      }
    }
  }

  uint32_t id_of(std::string_view token, size_t rank) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) {
      fail(
          "merge " + std::to_string(rank) + ": tokens must be in model.vocab, got " +
          json_quote(token));
    }
    return found->second;
  }

  void read_merges(element model) {
    simdjson::dom::array merges;
    if (model["merges"].get(merges)) fail("model.merges must be a list");
    std::string merged;
    for (element one : merges) {
      const size_t rank = vocabulary_.merges.size();
      std::string_view left, right, line;
      simdjson::dom::array pair;
      if (!one.get(line)) {
        const size_t space = line.find(' ');
        if (space == line.npos) fail("merge " + std::to_string(rank) + " must be two tokens");
        left = line.substr(0, space);
        right = line.substr(space + 1);
      } else if (
          one.get(pair) || pair.size() != 2 || pair.at(0).get(left) || pair.at(1).get(right)) {
        fail("merge " + std::to_string(rank) + " must be two tokens");
      }
      merged.assign(left).append(right);
      vocabulary_.merges.push_back({id_of(left, rank), id_of(right, rank), id_of(merged, rank)});
    }
  }

  // The names in tokenizer_config.json win; else the usual spellings, in this order.
  void find_end_of_text() {
    const auto folder = std::filesystem::path(where_).parent_path();
    simdjson::dom::parser parser;
    element configuration;
    const auto path = folder / "tokenizer_config.json";
    const bool has_configuration =
        std::filesystem::exists(path) && !parser.load(path.string()).get(configuration);
    const auto find =
        [&](std::string_view key,
            std::initializer_list<std::string_view> usual) -> std::optional<uint32_t> {
      if (has_configuration) {
        std::string_view name = text(configuration, key);
        if (name.empty() && configuration[key]["content"].get(name)) name = {};
        if (const auto id = added_id(name)) return id;
      }
      for (const std::string_view name : usual) {
        if (const auto id = added_id(name)) return id;
      }
      return std::nullopt;
    };
    vocabulary_.end_of_text = find(
        "eos_token",
        {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<｜end▁of▁sentence｜>"});
    vocabulary_.begin_of_text =
        find("bos_token", {"<|begin_of_text|>", "<s>", "<bos>", "<｜begin▁of▁sentence｜>"});
  }

  std::optional<uint32_t> added_id(std::string_view name) const {
    if (name.empty()) return std::nullopt;
    for (const AddedToken& token : vocabulary_.added_tokens) {
      if (token.text == name) return token.id;
    }
    return std::nullopt;
  }

  std::string where_;
  simdjson::dom::parser parser_;
  element root_;
  Vocabulary vocabulary_;
  std::unordered_map<std::string_view, uint32_t> ids_;  // of the tokens as the file writes them
};

void append_pre_tokenizer(std::string& json, PreTokenizer kind) {
  const std::string_view byte_level =
      R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": )";
  if (kind == PreTokenizer::kGpt2) {
    json.append(byte_level).append("true}");
    return;
  }
  json += R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": )";
  json += json_quote(regular_expression_of(kind));
  json += R"(}, "behavior": "Isolated", "invert": false}, )";
  json.append(byte_level).append("false}]}");
}

}  // namespace

Vocabulary read_tokenizer_json(const std::filesystem::path& path) {
  return Reader(std::filesystem::is_directory(path) ? path / "tokenizer.json" : path).read();
}

std::string tokenizer_json(const Vocabulary& vocabulary) {
  std::string json = R"({
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [)";
  std::vector<bool> added(vocabulary.tokens.size());
  const char* separator = "\n    ";
  for (const AddedToken& token : vocabulary.added_tokens) {
    added[token.id] = true;
    json += separator;
    json +=
        "{\"id\": " + std::to_string(token.id) + ", \"content\": " + json_quote(token.text) +
        R"(, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": )" +
        (token.special ? "true}" : "false}");
    separator = ",\n    ";
  }
  json += "\n  ],\n  \"normalizer\": null,\n  \"pre_tokenizer\": ";
  append_pre_tokenizer(json, vocabulary.pre_tokenizer);
  json += R"(,
  "post_processor": null,
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
  "model": {
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": )";
  json += vocabulary.ignore_merges ? "true" : "false";
  json += ",\n    \"vocab\": {";
  std::vector<std::string> printable(vocabulary.tokens.size());
  separator = "\n      ";
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.tokens[id].empty()) continue;
    printable[id] =
        json_quote(added[id] ? vocabulary.tokens[id] : bytes_to_printable(vocabulary.tokens[id]));
    json += separator;
    json += printable[id] + ": " + std::to_string(id);
    separator = ",\n      ";
  }
  json += "\n    },\n    \"merges\": [";
  separator = "\n      ";
  for (const auto& [left, right, merged] : vocabulary.merges) {
    json += separator;
    json += "[" + printable[left] + ", " + printable[right] + "]";
    separator = ",\n      ";
  }
  json += "\n    ]\n  }\n}\n";
  return json;
}

void write_tokenizer_json(const Vocabulary& vocabulary, const std::filesystem::path& path) {
  OutputFile file(path);
  file.write(tokenizer_json(vocabulary));
  file.publish();
}

}  // namespace mindspeed::data
