// SPDX-License-Identifier: Apache-2.0
// Reading records and documents: the size of chunks must not matter, random bytes must not hurt.
#include "data/records.h"

#include <gtest/gtest.h>

#include <random>

#include "data/document.h"
#include "data/error.h"
#include "data/json.h"
#include "data/temporary_folder.h"

namespace mindspeed::data {
namespace {

struct Read {
  std::string text, reason;
  uint64_t line;
  bool operator==(const Read&) const = default;
};

std::vector<Read> read_all(const std::filesystem::path& path, ReaderOptions options) {
  RecordReader reader({path}, options);
  DocumentParser parser({"text"});
  Chunk chunk;
  std::vector<Read> all;
  for (uint64_t number = 0; reader.next(chunk); ++number) {
    EXPECT_EQ(chunk.number, number);
    for (const Record& record : chunk.records) {
      std::string reason = parser.parse(chunk, record);
      all.push_back({reason.empty() ? std::string(parser.texts()[0]) : "", reason, record.line});
    }
  }
  EXPECT_EQ(reader.bytes_read(), reader.input_bytes());
  return all;
}

std::string random_json(std::mt19937& random) {
  static constexpr std::string_view kBytes = R"({"text": "a\n\u00e9\ud83d",[1,2]}}{"text":"b"})";
  std::string json = R"({"text": "some words", "n": [1, {"a": "]"}]})";
  for (int n = int(random() % 3); n > 0; --n) {
    json.insert(random() % json.size(), 1, kBytes[random() % kBytes.size()]);
  }
  if (random() % 10 == 0) json[random() % json.size()] = char(random());
  if (random() % 10 == 0) json.resize(random() % json.size());
  return json;
}

TEST(RecordReader, TheSizeOfChunksDoesNotMatter) {
  const TemporaryFolder folder;
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    for (const char* name : {"x.jsonl", "x.json", "x.txt"}) {
      const bool array = name[2] == 'j' && name[6] == 0 && random() % 2;
      std::string content = array ? "[" : "";
      for (int n = int(random() % 20); n > 0; --n) {
        content += random_json(random) + (array ? "," : random() % 4 ? "\n" : "\n\n");
      }
      if (array) content.back() = ']';
      write_file(folder / name, content);
      for (const TextUnit unit : {TextUnit::kFile, TextUnit::kLine, TextUnit::kParagraph}) {
        const auto expected = read_all(folder / name, {unit, 1 << 20, 1 << 20});
        EXPECT_EQ(read_all(folder / name, {unit, 1 << 20, 1}), expected) << content;
        EXPECT_EQ(read_all(folder / name, {unit, 1 << 20, 100}), expected) << content;
      }
    }
  }
}

TEST(RecordReader, BoundsTheMemoryOfARecord) {
  const TemporaryFolder folder;
  const std::string huge(3 << 20, 'x');
  for (const char* name : {"x.jsonl", "x.txt"}) {
    write_file(folder / name, huge + "\n{\"text\": \"after\"}\n");
    ReaderOptions options{TextUnit::kLine, 1000, 1 << 20};
    RecordReader reader({folder / name}, options);
    Chunk chunk;
    ASSERT_TRUE(reader.next(chunk));
    ASSERT_EQ(chunk.records.size(), 2u);
    EXPECT_TRUE(chunk.records[0].too_long);
    EXPECT_EQ(chunk.records[0].size, 1000u);
    EXPECT_FALSE(chunk.records[1].too_long);
    EXPECT_EQ(chunk.records[1].line, 2u);
  }
}

TEST(RecordReader, AnArrayWithoutItsEndIsSaid) {
  const TemporaryFolder folder;
  for (const char* content :
       {"[", "[{\"text\": \"a\"}", "[{\"text\": \"a\"},", "[{\"text\": \"a"}) {
    write_file(folder / "x.json", content);
    for (const uint64_t chunk_bytes : {1, 1000}) {
      const auto all = read_all(folder / "x.json", {TextUnit::kFile, 1000, chunk_bytes});
      ASSERT_FALSE(all.empty()) << content;
      EXPECT_NE(all.back().reason.find("closing bracket"), std::string::npos) << content;
    }
  }
}

TEST(ReplaceLoneSurrogates, LeavesPairsAndEscapedBackslashes) {
  const auto replaced = [](std::string text) {
    const uint64_t count = replace_lone_surrogates(text.data(), text.size());
    return std::pair(text, count);
  };
  const auto unchanged = [](const char* text) { return std::pair(std::string(text), uint64_t(0)); };
  EXPECT_EQ(
      replaced(R"(\ud83d\ude00 \\ud83d \n \u00e9 \u12)"),
      unchanged(R"(\ud83d\ude00 \\ud83d \n \u00e9 \u12)"));
  EXPECT_EQ(replaced(R"(\ud83d)"), std::pair(std::string(R"(\ufffd)"), uint64_t(1)));
  EXPECT_EQ(replaced(R"(\uDE00\uD83d)"), std::pair(std::string(R"(\ufffd\ufffd)"), uint64_t(2)));
  EXPECT_EQ(
      replaced(R"(\ud83d\ud83d\ude00)"),
      std::pair(std::string(R"(\ufffd\ud83d\ude00)"), uint64_t(1)));
  EXPECT_EQ(replaced("\\"), unchanged("\\"));
  EXPECT_EQ(replaced("\\ud83"), unchanged("\\ud83"));
}

TEST(JsonQuote, GivesWhatAParserReadsBack) {
  std::string text;
  for (int c = 0; c < 128; ++c) text += char(c);
  text += "\xC3\xA9\xF0\x9F\x98\x80";
  simdjson::dom::parser parser;
  EXPECT_EQ(std::string_view(parser.parse(json_quote(text))), text);
}

}  // namespace
}  // namespace mindspeed::data
