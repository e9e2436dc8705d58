// SPDX-License-Identifier: Apache-2.0
// Cutting, merging and vocabulary files, against slow plain references and under random damage.
#include "data/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "data/bpe_trainer.h"
#include "data/error.h"
#include "data/temporary_folder.h"
#include "data/tokenizer_json.h"
#include "data/utf8.h"

namespace mindspeed::data {
namespace {

constexpr PreTokenizer kAll[] = {
    PreTokenizer::kGpt2,
    PreTokenizer::kLlama3,
    PreTokenizer::kQwen2,
    PreTokenizer::kO200k,
    PreTokenizer::kTekken,
    PreTokenizer::kDeepSeek};

std::string random_bytes(std::mt19937& random, size_t size) {
  static constexpr std::string_view kCommon =
      "  \t\n\r'sSdlLe0123abcXYZ.,!/\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80\xCC\x81";
  std::string text(size, 0);
  for (char& byte : text) {
    byte = random() % 8 == 0 ? char(random()) : kCommon[random() % kCommon.size()];
  }
  return text;
}

std::vector<std::string> cut(PreTokenizer kind, const std::string& text, size_t at_once = 256) {
  std::vector<std::string> words;
  std::vector<size_t> ends(at_once);
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  for (size_t start = 0; start < text.size();) {
    const size_t count = cut_words(kind, bytes, text.size(), start, ends);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_GT(ends[i], start);
      words.push_back(text.substr(start, ends[i] - start));
      start = ends[i];
    }
  }
  return words;
}

Vocabulary trained(size_t size) {
  WordCounts words(PreTokenizer::kGpt2);
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) words.add(random_bytes(random, 100));
  words.add("the then there these them thesis thermal anthem breathe ");
  return train_bpe(words, size, {"<|endoftext|>"});
}

// BPE as it is defined: as long as any pair merges, the lowest rank, leftmost.
std::vector<uint32_t> merge_slowly(const Vocabulary& vocabulary, const std::string& word) {
  std::vector<std::string> symbols;
  for (const char byte : word) symbols.emplace_back(1, byte);
  for (;;) {
    size_t best_rank = SIZE_MAX, best = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      for (size_t rank = 0; rank < std::min(best_rank, vocabulary.merges.size()); ++rank) {
        const auto& [left, right, merged] = vocabulary.merges[rank];
        if (vocabulary.tokens[left] == symbols[i] && vocabulary.tokens[right] == symbols[i + 1]) {
          best_rank = rank;
          best = i;
        }
      }
    }
    if (best_rank == SIZE_MAX) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + long(best) + 1);
  }
  std::vector<uint32_t> ids;
  for (const std::string& symbol : symbols) {
    const auto found = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), symbol);
    ids.push_back(uint32_t(found - vocabulary.tokens.begin()));
  }
  return ids;
}

TEST(PreTokenizer, WordsJoinToTheTextWhateverTheBytes) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random_bytes(random, random() % 60);
    for (const PreTokenizer kind : kAll) {
      const auto words = cut(kind, text);
      std::string joined;
      for (const std::string& word : words) joined += word;
      EXPECT_EQ(joined, text);
      EXPECT_EQ(cut(kind, text, 1), words) << "the room for ends must not matter";
    }
  }
}

TEST(PreTokenizer, ExpressionsLeadBackToTheirKind) {
  for (const PreTokenizer kind : kAll)
    EXPECT_EQ(pre_tokenizer_of(regular_expression_of(kind)), kind);
  EXPECT_EQ(pre_tokenizer_of(".*"), std::nullopt);
}

TEST(Encoder, MergesAsDefined) {
  const Vocabulary vocabulary = trained(400);
  const auto tokenizer = std::make_shared<const Tokenizer>(vocabulary);
  Encoder encoder(tokenizer);
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    // Above and below the length where the algorithm changes; twice, so that the cache answers too.
    std::string text = random_bytes(random, random() % 70);
    for (const char* repeat : {"the", "ab", "0"}) {
      if (random() % 4 == 0) {
        for (int n = 0; n < 30; ++n) text += repeat;
      }
    }
    std::vector<uint32_t> expected;
    for (const std::string& word : cut(PreTokenizer::kGpt2, text)) {
      const auto ids = merge_slowly(vocabulary, word);
      expected.insert(expected.end(), ids.begin(), ids.end());
    }
    for (int time = 0; time < 2; ++time) {
      std::vector<uint32_t> ids;
      encoder.encode(text, ids);
      ASSERT_EQ(ids, expected) << testing::PrintToString(text);
    }
    EXPECT_EQ(tokenizer->decode(expected.data(), expected.size(), false), text);
  }
}

TEST(Encoder, LongestAddedTokenWins) {
  Vocabulary vocabulary = trained(300);
  for (const char* text : {"<a>", "<a><b>"}) {
    vocabulary.added_tokens.push_back({text, uint32_t(vocabulary.tokens.size()), true});
    vocabulary.tokens.emplace_back(text);
  }
  Encoder encoder(std::make_shared<const Tokenizer>(vocabulary));
  std::vector<uint32_t> ids;
  encoder.encode_with_added_tokens("<a><a><b>", ids);
  EXPECT_EQ(ids, (std::vector<uint32_t>{300, 301}));
}

TEST(TrainBpe, IsTheSameForAnyOrderOfCounting) {
  std::mt19937 random(4);
  std::vector<std::string> texts;
  for (int i = 0; i < 100; ++i) texts.push_back(random_bytes(random, 200));
  WordCounts forwards(PreTokenizer::kGpt2), first(PreTokenizer::kGpt2), second(PreTokenizer::kGpt2);
  for (const auto& text : texts) forwards.add(text);
  for (size_t i = texts.size(); i-- > 0;) (i % 3 ? first : second).add(texts[i]);
  first.merge(second);
  EXPECT_EQ(
      tokenizer_json(train_bpe(forwards, 500, {})), tokenizer_json(train_bpe(first, 500, {})));
}

TEST(TrainBpe, StopsWhenNothingIsLeftToMerge) {
  WordCounts words(PreTokenizer::kGpt2);
  words.add("aaaa aaaa");
  const Vocabulary vocabulary = train_bpe(words, 5000, {});
  EXPECT_LT(vocabulary.tokens.size(), 270u);
  EXPECT_THROW(train_bpe(words, 255, {}), Error);
  EXPECT_EQ(train_bpe(words, 256, {}).merges.size(), 0u);
}

TEST(TokenizerJson, ReadsWhatItWrites) {
  const TemporaryFolder folder;
  for (const PreTokenizer kind : kAll) {
    Vocabulary vocabulary = trained(350);
    vocabulary.pre_tokenizer = kind;
    write_tokenizer_json(vocabulary, folder / "tokenizer.json");
    const Vocabulary read = read_tokenizer_json(folder.path());
    EXPECT_EQ(read.tokens, vocabulary.tokens);
    EXPECT_EQ(read.merges, vocabulary.merges);
    EXPECT_EQ(read.pre_tokenizer, kind);
    EXPECT_EQ(read.end_of_text, 0u);
  }
}

TEST(TokenizerJson, DamageIsAnErrorOrHarmless) {
  const TemporaryFolder folder;
  const std::string good = tokenizer_json(trained(270));
  std::mt19937 random(5);
  Tokenizer tokenizer(trained(270));
  for (int i = 0; i < 400; ++i) {
    std::string bad = good;
    if (i % 3 == 0) bad.resize(random() % bad.size());
    for (int n = 0; n < 3 && !bad.empty(); ++n) bad[random() % bad.size()] = char(random());
    write_file(folder / "bad.json", bad);
    try {
      Encoder encoder(Tokenizer::from_file(folder / "bad.json"));
      std::vector<uint32_t> ids;
      encoder.encode_with_added_tokens("the text \xFF", ids);
      EXPECT_FALSE(encoder.tokenizer().decode(ids.data(), ids.size(), false).empty());
    } catch (const Error&) {
    }
  }
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(find_invalid_utf8("plain ascii text"), 16u);
  EXPECT_EQ(find_invalid_utf8("na\xC3\xAFve \xF0\x9F\x98\x80"), 11u);
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF"}) {
    EXPECT_EQ(find_invalid_utf8(std::string("12345678") + bad), 8u) << testing::PrintToString(bad);
  }
  std::mt19937 random(6);
  for (int i = 0; i < 1000; ++i) {
    const std::string text = replace_invalid_utf8(random_bytes(random, 40));
    EXPECT_EQ(find_invalid_utf8(text), text.size());
  }
}

// Time quadratic in the word, or a scan of it for each merge, would be minutes.
TEST(BpeTrainer, TakesAWordOfTwoMillionLettersAndNulBytes) {
  std::string word(2'000'000, 'a');
  std::mt19937 random(5);
  for (char& letter : word) letter = char('a' + random() % 13);
  WordCounts words(PreTokenizer::kGpt2);
  words.add_word(word, 2);
  words.add_word(std::string(100, '\0'), 1000000);
  const Vocabulary vocabulary = train_bpe(words, 4000, {});
  EXPECT_EQ(vocabulary.tokens.size(), 4000U);
  EXPECT_EQ(vocabulary.tokens[256], std::string(2, '\0'));
}

TEST(BpeTrainer, CountsGoPast32Bits) {
  WordCounts words(PreTokenizer::kGpt2);
  words.add_word("ab", uint64_t(1) << 33);
  words.add_word("cd", (uint64_t(1) << 33) + 1);  // in 32 bits: 0 and 1
  words.add_word("ab", 2);
  const Vocabulary vocabulary = train_bpe(words, 257, {});
  EXPECT_EQ(vocabulary.tokens[256], "ab");
}

TEST(BpeTrainer, EqualLettersMergeFromTheLeft) {
  WordCounts words(PreTokenizer::kGpt2);
  words.add_word("aaaaa", 10);  // (a, a) four times, merged twice: [aa][aa]a
  const Vocabulary vocabulary = train_bpe(words, 300, {});
  ASSERT_EQ(vocabulary.tokens.size(), 259U);
  EXPECT_EQ(vocabulary.tokens[256], "aa");
  EXPECT_EQ(vocabulary.tokens[257], "aaa");
  EXPECT_EQ(vocabulary.tokens[258], "aaaaa");
}

}  // namespace
}  // namespace mindspeed::data
