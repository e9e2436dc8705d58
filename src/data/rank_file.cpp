// SPDX-License-Identifier: Apache-2.0
// The merges of such a vocabulary are all ways to cut a token into two tokens, each with the rank
// of the whole.
#include "data/rank_file.h"

#include <simdjson.h>

#include <charconv>
#include <optional>
#include <unordered_map>

#include "data/error.h"

namespace mindspeed::data {
namespace {

struct SpecialToken {
  const char* text;
  uint32_t after_last;  // id minus the number of ranks
};

struct Family {
  size_t num_ranks;
  PreTokenizer pre_tokenizer;
  std::vector<SpecialToken> special_tokens;
  const char* begin_of_text;  // null: none
  const char* end_of_text;
  uint32_t num_reserved;  // special ids in all; those without a name above are "reserved"
};

// Published with tiktoken (gpt2, cl100k_base, o200k_base), llama-models and Qwen's tokenizer.
const std::vector<Family>& rank_families() {
  static const std::vector<Family> families = {
      {50256, PreTokenizer::kGpt2, {{"<|endoftext|>", 0}}, nullptr, "<|endoftext|>", 0},
      {100256,
       PreTokenizer::kLlama3,
       {{"<|endoftext|>", 1},
        {"<|fim_prefix|>", 2},
        {"<|fim_middle|>", 3},
        {"<|fim_suffix|>", 4},
        {"<|endofprompt|>", 20}},
       nullptr,
       "<|endoftext|>",
       0},
      {199998,
       PreTokenizer::kO200k,
       {{"<|endoftext|>", 1}, {"<|endofprompt|>", 20}},
       nullptr,
       "<|endoftext|>",
       0},
      {128000,
       PreTokenizer::kLlama3,
       {{"<|begin_of_text|>", 0},
        {"<|end_of_text|>", 1},
        {"<|reserved_special_token_0|>", 2},
        {"<|reserved_special_token_1|>", 3},
        {"<|finetune_right_pad_id|>", 4},
        {"<|step_id|>", 5},
        {"<|start_header_id|>", 6},
        {"<|end_header_id|>", 7},
        {"<|eom_id|>", 8},
        {"<|eot_id|>", 9},
        {"<|python_tag|>", 10},
        {"<|image|>", 11}},
       "<|begin_of_text|>",
       "<|end_of_text|>",
       256},
      {151643,
       PreTokenizer::kQwen2,
       {{"<|endoftext|>", 0}, {"<|im_start|>", 1}, {"<|im_end|>", 2}},
       nullptr,
       "<|endoftext|>",
       0},
  };
  return families;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string bytes;
  uint32_t buffer = 0;
  int num_bits = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char c : text) {
    const int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (digit < 0) return std::nullopt;
    buffer = buffer << 6 | uint32_t(digit);
    num_bits += 6;
    if (num_bits >= 8) bytes += char(buffer >> (num_bits -= 8));
  }
  return bytes;
}

// A line of a rank file; nothing if it is none.
std::optional<std::pair<std::string, uint32_t>> rank_line(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const size_t space = line.find(' ');
  if (space == line.npos || space == 0) return std::nullopt;
  uint32_t rank;
  const char* const end = line.data() + line.size();
  const auto [rest, error] = std::from_chars(line.data() + space + 1, end, rank);
  auto bytes = from_base64(line.substr(0, space));
  if (error != std::errc() || rest != end || !bytes || bytes->empty()) return std::nullopt;
  return std::pair(std::move(*bytes), rank);
}

void place(Vocabulary& vocabulary, uint32_t id, std::string token, const std::string& where) {
  constexpr uint32_t kMostTokens = 1u << 24;
  if (id >= kMostTokens) {
    throw Error(where + ": ranks must be below 16777216, got " + std::to_string(id));
  }
  if (id >= vocabulary.tokens.size()) vocabulary.tokens.resize(id + 1);
  vocabulary.tokens[id] = std::move(token);
}

void add_merges(Vocabulary& vocabulary) {
  std::unordered_map<std::string_view, uint32_t> ids;
  for (uint32_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (!vocabulary.tokens[id].empty()) ids.emplace(vocabulary.tokens[id], id);
  }
  for (uint32_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string_view token = vocabulary.tokens[id];
    for (size_t i = 1; i < token.size(); ++i) {
      const auto left = ids.find(token.substr(0, i)), right = ids.find(token.substr(i));
      if (left == ids.end() || right == ids.end()) continue;
      vocabulary.merges.push_back({left->second, right->second, id});
      vocabulary.merge_ranks.push_back(id);
    }
  }
}

void add_special_tokens(Vocabulary& vocabulary, const Family& family, const std::string& where) {
  const auto num_ranks = uint32_t(family.num_ranks);
  const auto add = [&](const std::string& text, uint32_t id) {
    place(vocabulary, id, text, where);
    vocabulary.added_tokens.push_back({text, id, true});
  };
  for (const auto& [text, after_last] : family.special_tokens) {
    add(text, num_ranks + after_last);
    if (family.begin_of_text && text == std::string_view(family.begin_of_text)) {
      vocabulary.begin_of_text = num_ranks + after_last;
    }
    if (text == std::string_view(family.end_of_text)) {
      vocabulary.end_of_text = num_ranks + after_last;
    }
  }
  for (auto i = uint32_t(family.special_tokens.size()); i < family.num_reserved; ++i) {
    const auto number = i - uint32_t(family.special_tokens.size()) + 2;
    add("<|reserved_special_token_" + std::to_string(number) + "|>", num_ranks + i);
  }
}

}  // namespace

bool is_rank_file(std::string_view content) {
  const size_t first = content.find_first_not_of("\r\n");
  if (first == content.npos) return false;
  content.remove_prefix(first);
  return rank_line(content.substr(0, content.find('\n'))).has_value();
}

Vocabulary read_rank_file(std::string_view content, const std::string& where) {
  Vocabulary vocabulary;
  size_t num_ranks = 0;
  for (size_t start = 0, number = 1; start < content.size(); ++number) {
    size_t end = content.find('\n', start);
    if (end == content.npos) end = content.size();
    const std::string_view line = content.substr(start, end - start);
    start = end + 1;
    if (line.empty() || line == "\r") continue;
    auto token = rank_line(line);
    if (!token) {
      throw Error(
          where + ", line " + std::to_string(number) + ": must be \"BASE64 RANK\", got \"" +
          std::string(line.substr(0, 60)) + "\"; is the file whole?");
    }
    place(vocabulary, token->second, std::move(token->first), where);
    ++num_ranks;
  }
  const Family* family = nullptr;
  std::string known;
  for (const Family& candidate : rank_families()) {
    if (candidate.num_ranks == num_ranks) family = &candidate;
    known += (known.empty() ? "" : ", ") + std::to_string(candidate.num_ranks);
  }
  if (!family) {
    throw Error(
        where + ": the number of ranks must be that of a known vocabulary (" + known + "), got " +
        std::to_string(num_ranks) +
        "; a rank file does not say how text is cut: use the model's tokenizer.json");
  }
  vocabulary.pre_tokenizer = family->pre_tokenizer;
  vocabulary.ignore_merges = true;
  add_merges(vocabulary);
  add_special_tokens(vocabulary, *family, where);
  return vocabulary;
}

bool is_tekken_json(std::string_view content) {
  const std::string_view head = content.substr(0, 4096);
  return head.find("\"config\"") != head.npos && head.find("\"pattern\"") != head.npos &&
         head.find("\"default_vocab_size\"") != head.npos;
}

Vocabulary read_tekken_json(std::string_view content, const std::string& where) {
  const auto fail = [&](const std::string& what) { throw Error(where + ": " + what); };
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parser.parse(simdjson::padded_string(content)).get(root)) {
    fail(std::string("must be JSON: ") + simdjson::error_message(error));
  }
  std::string_view pattern;
  uint64_t size = 0;
  uint64_t num_special = 0;
  simdjson::dom::array tokens;
  if (root["config"]["pattern"].get(pattern) || root["config"]["default_vocab_size"].get(size) ||
      root["config"]["default_num_special_tokens"].get(num_special) || root["vocab"].get(tokens)) {
    fail("must have config.pattern, default_vocab_size, default_num_special_tokens and vocab");
  }
  if (size <= num_special || size > (1u << 24)) {
    fail("config.default_vocab_size must be above default_num_special_tokens");
  }
  Vocabulary vocabulary;
  const auto kind = pre_tokenizer_of(pattern);
  if (!kind) fail("config.pattern must be a known one (tekken's), got " + std::string(pattern));
  vocabulary.pre_tokenizer = *kind;
  vocabulary.ignore_merges = true;
  for (const auto token : tokens) {
    uint64_t rank;
    std::string_view base64;
    if (token["rank"].get(rank) || token["token_bytes"].get(base64)) {
      fail("vocab: each token must have rank and token_bytes");
    }
    if (rank >= size - num_special) continue;  // the file holds more than the vocabulary uses
    auto bytes = from_base64(base64);
    if (!bytes) fail("vocab: token_bytes must be base64, got " + std::string(base64));
    place(vocabulary, uint32_t(rank + num_special), std::move(*bytes), where);
  }
  add_merges(vocabulary);
  std::vector<std::string> special = {
      "<unk>",
      "<s>",
      "</s>",
      "[INST]",
      "[/INST]",
      "[AVAILABLE_TOOLS]",
      "[/AVAILABLE_TOOLS]",
      "[TOOL_RESULTS]",
      "[/TOOL_RESULTS]",
      "[TOOL_CALLS]",
      "[IMG]",
      "<pad>",
      "[IMG_BREAK]",
      "[IMG_END]",
      "[PREFIX]",
      "[MIDDLE]",
      "[SUFFIX]",
      "[SYSTEM_PROMPT]",
      "[/SYSTEM_PROMPT]",
      "[TOOL_CONTENT]"};
  special.resize(num_special);
  simdjson::dom::array named;
  if (!root["special_tokens"].get(named)) {  // newer files name them
    for (const auto token : named) {
      uint64_t rank;
      std::string_view text;
      if (!token["rank"].get(rank) && !token["token_str"].get(text) && rank < num_special) {
        special[rank] = text;
      }
    }
  }
  for (uint32_t id = 0; id < num_special; ++id) {
    if (special[id].empty()) special[id] = "<SPECIAL_" + std::to_string(id) + ">";
    place(vocabulary, id, special[id], where);
    vocabulary.added_tokens.push_back({special[id], id, true});
    if (special[id] == "<s>") vocabulary.begin_of_text = id;
    if (special[id] == "</s>") vocabulary.end_of_text = id;
  }
  return vocabulary;
}

}  // namespace mindspeed::data
