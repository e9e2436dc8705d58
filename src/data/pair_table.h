// SPDX-License-Identifier: Apache-2.0
// The merges of a BPE vocabulary: (left id, right id) -> (rank, id of the merged token), in one
// flat open addressing table of 16-byte slots.
#pragma once
#include <bit>
#include <cstdint>
#include <vector>

namespace mindspeed::data {

struct Merge {
  uint32_t rank;
  uint32_t id;
};

inline constexpr uint32_t kNoRank = UINT32_MAX;

class PairTable {
 public:
  explicit PairTable(size_t num_pairs)
      : slots_(std::bit_ceil(num_pairs * 2 + 2)), shift_(64 - std::countr_zero(slots_.size())) {}

  // A pair given twice keeps the later rank, as the tokenizers library does.
  void insert(uint32_t left, uint32_t right, Merge merge) {
    const uint64_t key = key_of(left, right);
    size_t i = home(key);
    while (slots_[i].merge.rank != kNoRank && slots_[i].key != key)
      i = (i + 1) & (slots_.size() - 1);
    slots_[i] = {key, merge};
  }

  // rank kNoRank when the pair does not merge
  Merge find(uint32_t left, uint32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t i = home(key);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].key == key || slots_[i].merge.rank == kNoRank) return slots_[i].merge;
    }
  }

 private:
  struct Slot {
    uint64_t key = UINT64_MAX;
    Merge merge{kNoRank, 0};
  };

  static uint64_t key_of(uint32_t left, uint32_t right) { return (uint64_t(left) << 32) | right; }
  size_t home(uint64_t key) const { return (key * 0x9E3779B97F4A7C15ull) >> shift_; }

  std::vector<Slot> slots_;
  int shift_;
};

}  // namespace mindspeed::data
