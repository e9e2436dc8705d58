// SPDX-License-Identifier: Apache-2.0
// Token files and the order of samples.
#include "data/packed_dataset.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "data/error.h"
#include "data/permutation.h"
#include "data/temporary_folder.h"

namespace mindspeed::data {
namespace {

std::string write_corpus(const TemporaryFolder& folder, TokenType type, int documents) {
  const auto prefix = folder / "corpus";
  IndexedDatasetWriter writer(prefix, type);
  std::mt19937 random(1);
  for (int i = 0; i < documents; ++i) {
    std::vector<uint32_t> ids(random() % 30);
    for (uint32_t& id : ids) id = random() % 1000;
    writer.add_document(ids);
  }
  writer.publish(1000, -1);
  return prefix.string();
}

TEST(Permutation, HitsEveryPlaceOnce) {
  for (const uint64_t size : {1, 2, 3, 4, 5, 16, 17, 100, 1023, 1025}) {
    for (const uint64_t key : {0, 1, 99}) {
      std::set<uint64_t> seen;
      const Permutation permutation(key, size);
      for (uint64_t i = 0; i < size; ++i) {
        EXPECT_LT(permutation(i), size);
        seen.insert(permutation(i));
      }
      EXPECT_EQ(seen.size(), size);
    }
  }
  const uint64_t huge = uint64_t(1) << 62;
  EXPECT_LT(Permutation(1, huge + 5)(huge), huge + 5);
}

TEST(Permutation, IsUniform) {
  // Where 0 goes, over many keys: chi-squared with 9 degrees of freedom, mean 9, variance 18; 6
  // deviations.
  constexpr int kKeys = 20000;
  int counts[10] = {};
  for (uint64_t key = 0; key < kKeys; ++key) ++counts[Permutation(mix(key, 7), 10)(0)];
  double chi_squared = 0;
  for (const int count : counts)
    chi_squared += (count - kKeys / 10.0) * (count - kKeys / 10.0) / (kKeys / 10.0);
  EXPECT_LT(chi_squared, 9 + 6 * std::sqrt(18.0));
}

TEST(Blend, NumbersEachCorpusWithoutGaps) {
  for (const auto& weights : std::vector<std::vector<double>>{
           {1}, {1, 1}, {1e-9, 1}, {3, 2, 1}, {0, 1, 0}, {0.1, 0.2, 0.3, 0.4}, {1e300, 1e300}}) {
    const Blend blend(weights, 11);
    std::vector<uint64_t> next(weights.size());
    for (uint64_t sample = 0; sample < 3000; ++sample) {
      const Blend::Place place = blend.locate(sample);
      ASSERT_LT(place.corpus, weights.size());
      EXPECT_GT(weights[place.corpus], 0);
      EXPECT_EQ(place.sample, next[place.corpus]++);
    }
  }
}

TEST(IndexedDataset, ReadsWhatWasWritten) {
  const TemporaryFolder folder;
  for (const TokenType type : {TokenType::kUint16, TokenType::kInt32}) {
    const IndexedDataset dataset(write_corpus(folder, type, 200));
    EXPECT_EQ(dataset.num_documents(), 200u);
    std::mt19937 random(1);
    uint64_t start = 0;
    for (uint64_t document = 0; document < 200; ++document) {
      std::vector<int64_t> expected(random() % 30);
      for (int64_t& id : expected) id = random() % 1000;
      ASSERT_EQ(dataset.document_start(document), start);
      std::vector<int64_t> tokens(expected.size());
      dataset.read(start, tokens.size(), tokens.data());
      EXPECT_EQ(tokens, expected);
      for (size_t i = 0; i < tokens.size(); ++i)
        EXPECT_EQ(dataset.document_at(start + i), document);
      start += expected.size();
    }
    EXPECT_EQ(dataset.num_tokens(), start);
  }
}

TEST(IndexedDataset, DamageIsAnErrorOrHarmless) {
  const TemporaryFolder folder;
  const std::string prefix = write_corpus(folder, TokenType::kUint16, 40);
  const std::string index = read_file(prefix + ".idx"), tokens = read_file(prefix + ".bin");
  std::mt19937 random(2);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bad = index;
    if (i % 4 == 0) bad.resize(random() % bad.size());
    for (int n = int(random() % 3); n >= 0 && !bad.empty(); --n)
      bad[random() % bad.size()] = char(random());
    write_file(prefix + ".idx", bad);
    write_file(prefix + ".bin", i % 5 ? tokens : tokens.substr(0, random() % tokens.size()));
    try {
      const PackedDataset dataset({{prefix, 1.0}}, 16, 0, false);
      int64_t input_ids[16], labels[16];
      int32_t positions[16];
      std::vector<int32_t> pieces;
      for (uint64_t sample = 0; sample < 50; ++sample) {
        dataset.fill(sample, input_ids, labels, positions, pieces);
      }
      dataset.largest_id();
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1500);
}

TEST(IndexedDatasetWriter, RefusesIdsThatDoNotFit) {
  const TemporaryFolder folder;
  IndexedDatasetWriter writer(folder / "x", TokenType::kUint16);
  EXPECT_THROW(writer.add_document(std::vector<uint32_t>{65536}), Error);
  EXPECT_EQ(token_type_for(65499), TokenType::kUint16);
  EXPECT_EQ(token_type_for(65500), TokenType::kInt32);
}

TEST(OutputFile, AppearsWholeOrNotAtAll) {
  const TemporaryFolder folder;
  const auto path = folder / "new/file";
  {
    OutputFile abandoned(path);
    abandoned.write("half");
  }
  EXPECT_TRUE(std::filesystem::is_empty(path.parent_path()));
  OutputFile file(path);
  EXPECT_THROW(OutputFile second(path), Error);
  const std::string big(3 << 20, 'a');
  file.write("0123");
  file.write(big);
  file.write("4567");
  file.overwrite(1, "xy", 2);
  char back[4];
  file.read_back(file.size() - 4, back, 4);
  EXPECT_EQ(std::string_view(back, 4), "4567");
  EXPECT_FALSE(std::filesystem::exists(path));
  file.publish();
  EXPECT_EQ(read_file(path), "0xy3" + big + "4567");
  EXPECT_THROW(OutputFile("/proc/nothing/x"), Error);
}

}  // namespace
}  // namespace mindspeed::data
