// SPDX-License-Identifier: Apache-2.0
// Cutting the ring of tokens into rows with document boundaries.
#include "data/packed_dataset.h"

#include <algorithm>
#include <numeric>

#include "data/error.h"
#include "data/permutation.h"

namespace mindspeed::data {
namespace {

std::vector<double> weights_of(const std::vector<Corpus>& corpora) {
  std::vector<double> weights;
  weights.reserve(corpora.size());
  for (const Corpus& corpus : corpora) weights.push_back(corpus.weight);
  return weights;
}

}  // namespace

PackedDataset::PackedDataset(
    const std::vector<Corpus>& corpora, uint64_t seq_len, uint64_t seed, bool cross_documents)
    : blend_(weights_of(corpora), seed),
      seq_len_(seq_len),
      seed_(seed),
      cross_documents_(cross_documents) {
  if (seq_len == 0 || seq_len > INT32_MAX) {
    throw Error(
        "data: the sequence length must be between 1 and 2147483647, got " +
        std::to_string(seq_len));
  }
  for (const Corpus& corpus : corpora) {
    const IndexedDataset& opened = corpora_.emplace_back(corpus.prefix);
    if (opened.num_tokens() < seq_len) {
      throw Error(
          corpus.prefix + ": the corpus must have at least one sequence of " +
          std::to_string(seq_len) + " tokens, got " + std::to_string(opened.num_tokens()) +
          "; use more text or a shorter sequence length");
    }
  }
}

PackedDataset::Window PackedDataset::window(uint64_t sample) const {
  const Blend::Place place = blend_.locate(sample);
  const uint64_t windows = samples_per_epoch(place.corpus);
  const uint64_t tokens = corpora_[place.corpus].num_tokens();
  const uint64_t epoch = place.sample / windows;
  const uint64_t key = mix(mix(seed_, place.corpus), epoch);
  const uint64_t first = uniform(mix(key, 1), tokens);
  const uint64_t offset = Permutation(key, windows)(place.sample % windows) * seq_len_;
  return {place.corpus, offset < tokens - first ? first + offset : offset - (tokens - first)};
}

void PackedDataset::fill(
    uint64_t sample,
    int64_t* input_ids,
    int64_t* labels,
    int32_t* positions,
    std::vector<int32_t>& piece_lengths) const {
  const Window at = window(sample);
  const IndexedDataset& corpus = corpora_[at.corpus];
  const size_t first_piece = piece_lengths.size();
  // The ring's end is the end of a document, so the two parts of a row that crosses it share none.
  const size_t count = std::min<uint64_t>(seq_len_, corpus.num_tokens() - at.start);
  fill_range(corpus, at.start, count, input_ids, labels, positions, piece_lengths);
  if (const size_t rest = seq_len_ - count; rest > 0) {
    fill_range(
        corpus, 0, rest, input_ids + count, labels + count, positions + count, piece_lengths);
    if (cross_documents_) labels[count - 1] = input_ids[count];
  }
  if (cross_documents_) {
    piece_lengths.resize(first_piece);
    piece_lengths.push_back(int32_t(seq_len_));
    std::iota(positions, positions + seq_len_, 0);
  }
}

void PackedDataset::fill_range(
    const IndexedDataset& corpus,
    uint64_t start,
    size_t count,
    int64_t* input_ids,
    int64_t* labels,
    int32_t* positions,
    std::vector<int32_t>& piece_lengths) const {
  corpus.read(start, count, input_ids);
  std::copy(input_ids + 1, input_ids + count, labels);
  const uint64_t end = start + count;
  if (end < corpus.num_tokens()) {
    corpus.read(end, 1, labels + count - 1);
  } else {
    labels[count - 1] = kIgnoredLabel;
  }
  uint64_t document = corpus.document_at(start);
  for (uint64_t piece = start; piece < end; ++document) {
    const uint64_t document_end = corpus.document_start(document + 1);
    const uint64_t piece_end = std::min(document_end, end);
    if (piece_end == piece) continue;  // an empty document
    std::iota(positions + (piece - start), positions + (piece_end - start), 0);
    piece_lengths.push_back(int32_t(piece_end - piece));
    if (piece_end == document_end && !cross_documents_)
      labels[piece_end - 1 - start] = kIgnoredLabel;
    piece = piece_end;
  }
}

uint64_t PackedDataset::num_tokens() const {
  uint64_t sum = 0;
  for (const IndexedDataset& corpus : corpora_) sum += corpus.num_tokens();
  return sum;
}

uint64_t PackedDataset::largest_id() const {
  uint64_t largest = 0;
  for (const IndexedDataset& corpus : corpora_) largest = std::max(largest, corpus.largest_id());
  return largest;
}

}  // namespace mindspeed::data
