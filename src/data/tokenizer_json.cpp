// SPDX-License-Identifier: Apache-2.0
// Reading is strict: a setting that would change ids and is not implemented is an error, never
// ignored.
#include "data/tokenizer_json.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <tuple>
#include <unordered_map>

#include "data/byte_alphabet.h"
#include "data/error.h"
#include "data/json.h"
#include "data/output_file.h"

namespace mindspeed::data {
namespace {

using simdjson::dom::element;

constexpr std::string_view kSpaceSign = "\xE2\x96\x81";  // U+2581

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

  Reader(const std::string& json, const std::filesystem::path& path) : where_(path.string()) {
    const auto error = parser_.parse(json).get(root_);
    if (error) fail(std::string("must be JSON: ") + simdjson::error_message(error));
  }

  Vocabulary read() {
    element model;
    if (root_["model"].get(model)) fail("must have a \"model\"; is this a tokenizer.json?");
    refuse_if_set(model, {"dropout", "continuing_subword_prefix", "end_of_word_suffix"});
    if (const auto type = text(model, "type"); !type.empty() && type != "BPE") {
      fail("model.type must be BPE, got " + std::string(type));
    }
    if (flag(model, "byte_fallback")) vocabulary_.model = Model::kCharacterBpe;
    vocabulary_.ignore_merges = flag(model, "ignore_merges");
    if (vocabulary_.model == Model::kByteBpe) {
      refuse_if_set(model, {"unk_token"});
      read_normalizer();
      read_pre_tokenizer();
      read_tokens(model);
    } else {
      if (vocabulary_.ignore_merges) fail("model.ignore_merges must be false with byte_fallback");
      read_spaces();
      read_character_tokens(model);
    }
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

  // Of byte-level vocabularies: nothing, or normal form C.
  void read_normalizer() {
    for (element one : steps("normalizer", "normalizers")) {
      if (text(one, "type") != "NFC") {
        fail("normalizer must be null or NFC for byte-level BPE, got " + simdjson::minify(one));
      }
      vocabulary_.nfc = true;
    }
  }

  // The parts of a Sequence under `key`, or the one thing there, or nothing.
  std::vector<element> steps(std::string_view key, std::string_view parts_key) const {
    element whole;
    simdjson::dom::array parts;
    if (root_[key].get(whole) || whole.is_null()) return {};
    if (text(whole, "type") != "Sequence" || whole[parts_key].get(parts)) return {whole};
    return {parts.begin(), parts.end()};
  }

  // ByteLevel with its own expression (GPT-2), or Splits by known ones and then ByteLevel.
  void read_pre_tokenizer() {
    std::vector<std::string_view> expressions;
    bool byte_level = false;
    for (element one : steps("pre_tokenizer", "pretokenizers")) {
      const auto type = text(one, "type");
      std::string_view expression;
      if (byte_level) fail("pre_tokenizer: nothing may follow ByteLevel");
      if (type == "ByteLevel") {
        byte_level = true;
        if (flag(one, "add_prefix_space")) fail("pre_tokenizer.add_prefix_space must be false");
        if (!flag(one, "use_regex", true)) continue;
        if (!expressions.empty()) {
          fail("pre_tokenizer: Split followed by ByteLevel must set use_regex to false");
        }
        expressions.push_back(regular_expression_of(PreTokenizer::kGpt2));
      } else if (
          type == "Split" && text(one, "behavior") == "Isolated" && !flag(one, "invert") &&
          !one["pattern"]["Regex"].get(expression)) {
        expressions.push_back(expression);
      } else {
        fail(
            "pre_tokenizer must be ByteLevel, or Split by Regex (Isolated) and ByteLevel, got " +
            simdjson::minify(one));
      }
    }
    if (!byte_level || expressions.empty()) {
      fail("pre_tokenizer must be ByteLevel, or Split and ByteLevel, got none or half of it");
    }
    const auto kind = pre_tokenizer_of(expressions.back());
    const bool first_splits = expressions.size() == 3 && expressions[0] == kDeepSeekDigits &&
                              expressions[1] == kDeepSeekChinese;
    const bool right_splits =
        kind == PreTokenizer::kDeepSeek ? first_splits : expressions.size() == 1;
    if (!kind || !right_splits) {
      std::string all;
      for (const std::string_view expression : expressions) all += std::string(expression) + "  ";
      fail(
          "pre_tokenizer's expression must be that of GPT-2, Llama 3 (cl100k), Qwen 2, o200k, "
          "tekken or DeepSeek, got " +
          all);
    }
    vocabulary_.pre_tokenizer = *kind;
  }

  // Of vocabularies over characters: how spaces become U+2581, and whether one is put first. Either
  // the normalizer says so (Prepend, Replace) or the pre-tokenizer (Metaspace).
  void read_spaces() {
    auto& space_before_text = vocabulary_.normalizer.space_before_text;
    bool replaced = false;
    for (element one : steps("normalizer", "normalizers")) {
      const auto type = text(one, "type");
      std::string_view pattern;
      if (type == "Prepend" && text(one, "prepend") == kSpaceSign) {
        space_before_text = SpaceBeforeText::kAlways;
      } else if (
          type == "Replace" && !one["pattern"]["String"].get(pattern) && pattern == " " &&
          text(one, "content") == kSpaceSign) {
        replaced = true;
      } else {
        fail(
            "normalizer must be Prepend and Replace of a space by U+2581, got " +
            simdjson::minify(one));
      }
    }
    for (element one : steps("pre_tokenizer", "pretokenizers")) {
      std::string_view pattern;
      const auto type = text(one, "type");
      if (type == "Metaspace" && !replaced && text(one, "replacement") == kSpaceSign &&
          !flag(one, "split", true)) {
        replaced = true;
        const auto scheme = text(one, "prepend_scheme");
        space_before_text = scheme == "never"   ? SpaceBeforeText::kNever
                            : scheme == "first" ? SpaceBeforeText::kFirstUnlessThere
                                                : SpaceBeforeText::kUnlessThere;
      } else if (
          type == "Split" && replaced && !one["pattern"]["String"].get(pattern) && pattern == " ") {
        continue;  // no space is left to split at
      } else {
        fail(
            "pre_tokenizer must be null or Metaspace with U+2581 and split false, got " +
            simdjson::minify(one));
      }
    }
    if (!replaced)
      fail("spaces must become U+2581 (normalizer Replace, or Metaspace), got neither");
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
    read_added_tokens();
    for (const auto& [id, token] : not_bytes) {  // such a token can only be an added one
      if (id >= vocabulary_.tokens.size() || vocabulary_.tokens[id] != token) {
        fail(
            "model.vocab: every token must be made of the byte alphabet, got " + json_quote(token));
      }
    }
  }

  void read_character_tokens(element model) {
    simdjson::dom::object tokens;
    if (model["vocab"].get(tokens)) fail("model.vocab must be an object of token: id");
    std::array<std::optional<uint32_t>, 256> byte_ids;
    for (const auto field : tokens) {
      uint64_t id;
      if (field.value.get(id))
        fail("model.vocab: ids must be whole numbers, at " + json_quote(field.key));
      ids_.emplace(field.key, uint32_t(id));
      unsigned byte;
      if (field.key.size() == 6 &&
          std::sscanf(std::string(field.key).c_str(), "<0x%2X>", &byte) == 1) {
        byte_ids[byte] = uint32_t(id);
        place(id, std::string(1, char(byte)));
      } else {
        place(id, with_spaces(field.key));
      }
    }
    for (const auto id : byte_ids) {
      if (!id) fail("model.byte_fallback must come with the 256 tokens <0x00> to <0xFF>");
      vocabulary_.byte_ids.push_back(*id);
    }
    if (const auto unknown = text(model, "unk_token"); !unknown.empty()) {
      vocabulary_.unknown = id_of(unknown, 0);
    }
    read_added_tokens();
  }

  static std::string with_spaces(std::string_view token) {
    std::string out;
    while (!token.empty()) {
      const bool sign = token.starts_with(kSpaceSign);
      out += sign ? ' ' : token[0];
      token.remove_prefix(sign ? kSpaceSign.size() : 1);
    }
    return out;
  }

  void read_added_tokens() {
    simdjson::dom::array added;
    if (root_["added_tokens"].get(added)) return;
    for (element one : added) {
      uint64_t id;
      const auto content = text(one, "content");
      if (one["id"].get(id) || content.empty()) fail("added_tokens: each must have id and content");
      if (flag(one, "single_word")) {
        fail("added_tokens: single_word must be false, got true for " + json_quote(content));
      }
      place(id, std::string(content));
      vocabulary_.added_tokens.push_back(
          {std::string(content),
           uint32_t(id),
           flag(one, "special"),
           flag(one, "lstrip"),
           flag(one, "rstrip")});
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

void append_split(std::string& json, std::string_view expression) {
  json += R"({"type": "Split", "pattern": {"Regex": )" + json_quote(expression);
  json += R"(}, "behavior": "Isolated", "invert": false}, )";
}

// The merges as the tokenizers library wants them: ordered, with no two of one rank. Its own files
// of rank vocabularies put the ways to make one token in the order of their parts.
std::vector<std::array<uint32_t, 3>> ordered_merges(const Vocabulary& vocabulary) {
  auto merges = vocabulary.merges;
  if (vocabulary.merge_ranks.empty()) return merges;
  std::sort(merges.begin(), merges.end(), [](const auto& a, const auto& b) {
    return std::tie(a[2], a[0], a[1]) < std::tie(b[2], b[0], b[1]);
  });
  return merges;
}

}  // namespace

Vocabulary read_tokenizer_json(const std::filesystem::path& path) {
  return Reader(std::filesystem::is_directory(path) ? path / "tokenizer.json" : path).read();
}

Vocabulary parse_tokenizer_json(const std::string& json, const std::filesystem::path& path) {
  return Reader(json, path).read();
}

std::string pre_tokenizer_json(PreTokenizer kind) {
  const std::string_view byte_level =
      R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": )";
  if (kind == PreTokenizer::kGpt2) return std::string(byte_level) + "true}";
  std::string json = R"({"type": "Sequence", "pretokenizers": [)";
  if (kind == PreTokenizer::kDeepSeek) {
    append_split(json, kDeepSeekDigits);
    append_split(json, kDeepSeekChinese);
  }
  append_split(json, regular_expression_of(kind));
  return json.append(byte_level).append("false}]}");
}

std::string tokenizer_json(const Vocabulary& vocabulary) {
  if (vocabulary.model != Model::kByteBpe) {
    throw Error(
        "tokenizer: only a byte-level BPE vocabulary can be saved as tokenizer.json, this one is "
        "over characters; copy the file it came from");
  }
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
    json += "{\"id\": " + std::to_string(token.id) + ", \"content\": " + json_quote(token.text) +
            R"(, "single_word": false, "lstrip": )" + (token.strip_left ? "true" : "false") +
            R"(, "rstrip": )" + (token.strip_right ? "true" : "false") +
            R"(, "normalized": false, "special": )" + (token.special ? "true}" : "false}");
    separator = ",\n    ";
  }
  json += "\n  ],\n  \"normalizer\": ";
  json += vocabulary.nfc ? R"({"type": "NFC"})" : "null";
  json += ",\n  \"pre_tokenizer\": " + pre_tokenizer_json(vocabulary.pre_tokenizer);
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
  for (const auto& [left, right, merged] : ordered_merges(vocabulary)) {
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
