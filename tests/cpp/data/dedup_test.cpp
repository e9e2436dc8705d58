// SPDX-License-Identifier: Apache-2.0
// Deduplication: planted copies, and the same verdicts for any memory, threads and order of adding.
#include "data/dedup/document_dedup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "data/dedup/disk_sorter.h"
#include "data/dedup/min_hash.h"
#include "data/dedup/shingles.h"
#include "data/dedup/threads.h"
#include "data/error.h"
#include "data/temporary_folder.h"

namespace mindspeed::data {
namespace {

std::string random_text(std::mt19937& random, size_t num_words) {
  std::string text;
  for (size_t i = 0; i < num_words; ++i) text += "w" + std::to_string(random() % 20000) + " ";
  return text;
}

// Documents of which some are equal to or nearly the same as earlier ones.
std::vector<std::string> corpus_with_copies() {
  std::mt19937 random(1);
  std::vector<std::string> texts;
  for (int i = 0; i < 400; ++i) {
    texts.push_back(random_text(random, 20 + random() % 200));
    if (i % 4 == 1) texts.push_back(texts[random() % texts.size()]);
    if (i % 4 == 2) texts.push_back(texts[random() % texts.size()] + "one more");
    if (i % 50 == 0) texts.emplace_back();
  }
  return texts;
}

std::vector<Likeness> verdicts(
    const std::vector<std::string>& texts, DocumentDedupOptions options, bool reverse = false) {
  const TemporaryFolder folder;
  options.near = true;
  options.scratch_folder = folder.path();
  DocumentDedup dedup(options);
  run_threads(options.threads, [&](int thread) {
    for (size_t i = size_t(thread); i < texts.size(); i += size_t(options.threads)) {
      const size_t at = reverse ? texts.size() - 1 - i : i;
      dedup.add(uint32_t(at / 100), at % 100, texts[at]);
    }
  });
  dedup.decide();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));  // scratch files have no name
  std::vector<Likeness> found;
  for (size_t i = 0; i < texts.size(); ++i) {
    found.push_back(dedup.find(uint32_t(i / 100), i % 100));
  }
  return found;
}

TEST(DocumentDedup, VerdictsDoNotDependOnMemoryThreadsOrOrder) {
  const std::vector<std::string> texts = corpus_with_copies();
  const std::vector<Likeness> expected = verdicts(texts, {});
  EXPECT_GT(std::count(expected.begin(), expected.end(), Likeness::kExact), 90);
  EXPECT_GT(std::count(expected.begin(), expected.end(), Likeness::kNear), 60);
  for (const int threads : {1, 2, 7}) {
    for (const size_t memory_bytes : {size_t(1), size_t(20000), size_t(1) << 28}) {
      EXPECT_EQ(expected, verdicts(texts, {.memory_bytes = memory_bytes, .threads = threads}));
    }
  }
  EXPECT_EQ(expected, verdicts(texts, {}, true));
}

TEST(DocumentDedup, KeepsTheFirstOfEqualDocuments) {
  const std::vector<Likeness> found = verdicts({"", "a", "a", "", "b", "a"}, {});
  EXPECT_EQ(
      found,
      (std::vector{
          Likeness::kNone,
          Likeness::kNone,
          Likeness::kExact,
          Likeness::kExact,
          Likeness::kNone,
          Likeness::kExact}));
}

TEST(DocumentDedup, TakesNoDocumentOneAndTwo) {
  EXPECT_TRUE(verdicts({}, {}).empty());
  EXPECT_EQ(verdicts({""}, {}), std::vector{Likeness::kNone});
  EXPECT_EQ(verdicts({"x", "x"}, {}), (std::vector{Likeness::kNone, Likeness::kExact}));
}

// Each is like the one before it (J = 0.9) and unlike the one ten before: closing over the chain
// would keep one of all.
TEST(DocumentDedup, LikenessIsNotPassedOn) {
  std::mt19937 random(2);
  std::vector<std::string> words(2000);
  for (std::string& word : words) word = "w" + std::to_string(random());
  std::vector<std::string> texts;
  for (size_t start = 0; start + 400 <= words.size(); start += 20) {
    texts.emplace_back();
    for (size_t i = start; i < start + 400; ++i) texts.back() += words[i] + " ";
  }
  const std::vector<Likeness> found = verdicts(texts, {.near_threshold = 0.8});
  const auto kept = std::count(found.begin(), found.end(), Likeness::kNone);
  EXPECT_GE(kept, 20);
  EXPECT_LE(kept, 60);
}

TEST(DocumentDedup, RefusesADocumentAddedTwiceAndBadOptions) {
  const TemporaryFolder folder;
  DocumentDedup dedup({.scratch_folder = folder.path()});
  dedup.add(3, 70, "a");
  dedup.add(3, 70, "b");
  try {
    dedup.decide();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(), "dedup: each document must be added once, got file 3 offset 70 twice");
  }
  EXPECT_THROW(DocumentDedup({.near_threshold = 0}), Error);
  EXPECT_THROW(DocumentDedup({.near_threshold = 1.5}), Error);
  EXPECT_THROW(DocumentDedup({.threads = 0}), Error);
}

TEST(DocumentDedup, OffsetsGoPast32Bits) {
  const TemporaryFolder folder;
  DocumentDedup dedup({.scratch_folder = folder.path()});
  const uint64_t far = uint64_t(1) << 40;
  dedup.add(0, far + 7, "a");
  dedup.add(0, 7, "a");
  dedup.add(0, far, "b");
  dedup.decide();
  EXPECT_EQ(dedup.find(0, 7), Likeness::kNone);
  EXPECT_EQ(dedup.find(0, far + 7), Likeness::kExact);
  EXPECT_EQ(dedup.find(0, far), Likeness::kNone);
}

TEST(DocumentDedup, NamesAFolderThatCannotBeWritten) {
  EXPECT_THROW(DocumentDedup({.scratch_folder = "/dev/null/folder"}), Error);
}

TEST(DiskSorter, MergesWhatDoesNotFit) {
  const TemporaryFolder folder;
  std::mt19937_64 random(3);
  std::vector<uint64_t> numbers(10000);
  for (uint64_t& number : numbers) number = random() % 5000;
  std::vector<uint64_t> expected = numbers;
  std::sort(expected.begin(), expected.end());
  for (const size_t memory_bytes : {8, 1000, 1000000}) {
    DiskSorter<uint64_t> sorter(folder.path(), memory_bytes);
    sorter.add(numbers);
    std::vector<uint64_t> sorted;
    sorter.for_each([&](uint64_t number) { sorted.push_back(number); });
    EXPECT_EQ(sorted, expected) << memory_bytes;
  }
}

TEST(MinHash, EstimatesTheJaccardSimilarity) {
  std::mt19937 random(4);
  for (const size_t shared : {0, 20, 100, 180, 199, 200}) {
    double sum = 0, squares = 0;
    const double expected = double(shared) / double(400 - shared);
    constexpr int kTrials = 200;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<uint32_t> a(200), b(200);
      for (size_t i = 0; i < 200; ++i) {
        a[i] = uint32_t(random());
        b[i] = i < shared ? a[i] : uint32_t(random());
      }
      const double estimate = num_equal(min_hash(a), min_hash(b)) / double(kNumHashes);
      sum += estimate;
      squares += (estimate - expected) * (estimate - expected);
    }
    const double deviation = std::sqrt(expected * (1 - expected) / double(kNumHashes));
    EXPECT_NEAR(sum / kTrials, expected, 4 * deviation / std::sqrt(double(kTrials)) + 1e-9);
    EXPECT_LE(std::sqrt(squares / kTrials), 1.25 * deviation + 1e-9);
  }
}

std::vector<uint32_t> shingles_of(std::string_view text) {
  std::vector<uint32_t> shingles;
  hash_shingles(text, shingles);
  return shingles;
}

TEST(Shingles, AreRunsOfFiveWords) {
  EXPECT_TRUE(shingles_of("").empty());
  EXPECT_TRUE(shingles_of(" ... \n").empty());
  EXPECT_EQ(shingles_of("one").size(), 1U);
  EXPECT_EQ(shingles_of("a b c d e").size(), 1U);
  EXPECT_EQ(shingles_of("a b c d e f g").size(), 3U);
  EXPECT_EQ(shingles_of("a b c d e"), shingles_of("A, b;C\n(d) E."));
  EXPECT_EQ(shingles_of("x a b c d e")[1], shingles_of("a b c d e")[0]);
  EXPECT_NE(shingles_of("a b c d e"), shingles_of("b a c d e"));
  EXPECT_NE(shingles_of("ab c d e f"), shingles_of("a bc d e f"));
  EXPECT_EQ(shingles_of("ÉTÉ"), shingles_of("été"));
  EXPECT_EQ(shingles_of("今天天气很好").size(), 2U);  // each ideograph is a word
}

}  // namespace
}  // namespace mindspeed::data
