// SPDX-License-Identifier: Apache-2.0
// Packed samples, each a pure function of (seed, sample number). A corpus is a ring of its tokens,
// documents in file order; in each epoch the ring is cut into windows of seq_len tokens from a
// place that depends on the epoch, and the windows are taken in a keyed random order. So no array
// is kept, whatever the corpus' size, and the tokens that an epoch leaves over (fewer than seq_len)
// are others each time.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/blend.h"
#include "data/indexed_dataset.h"

namespace mindspeed::data {

inline constexpr int64_t kIgnoredLabel = -100;

struct Corpus {
  std::string prefix;
  double weight = 1.0;
};

class PackedDataset {
 public:
  // Throws Error if a corpus is unreadable or has fewer than seq_len tokens.
  PackedDataset(
      const std::vector<Corpus>& corpora, uint64_t seq_len, uint64_t seed, bool cross_documents);

  // Where a sample's tokens lie.
  struct Window {
    size_t corpus;
    uint64_t start;  // first token, position in the corpus; may run past its end and go on at 0
  };
  Window window(uint64_t sample) const;

  // Writes seq_len token ids, labels and positions, and appends the lengths of the documents'
  // pieces in order. labels[t] is the token after t, kIgnoredLabel where that belongs to another
  // document; positions count from the start of each piece. With cross_documents the row is one
  // piece.
  void fill(
      uint64_t sample,
      int64_t* input_ids,
      int64_t* labels,
      int32_t* positions,
      std::vector<int32_t>& piece_lengths) const;

  uint64_t seq_len() const { return seq_len_; }
  uint64_t num_tokens() const;  // of all corpora
  uint64_t samples_per_epoch(size_t corpus) const {
    return corpora_[corpus].num_tokens() / seq_len_;
  }
  uint64_t largest_id() const;
  const std::vector<IndexedDataset>& corpora() const { return corpora_; }

 private:
  void fill_range(
      const IndexedDataset& corpus,
      uint64_t start,
      size_t count,
      int64_t* input_ids,
      int64_t* labels,
      int32_t* positions,
      std::vector<int32_t>& piece_lengths) const;

  std::vector<IndexedDataset> corpora_;
  Blend blend_;
  uint64_t seq_len_, seed_;
  bool cross_documents_;
};

}  // namespace mindspeed::data
