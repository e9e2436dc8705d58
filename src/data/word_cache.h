// SPDX-License-Identifier: Apache-2.0
// The ids of words met before: words of up to 15 bytes and 4 ids, in sets of two slots of one cache
// line; the older of a full set goes. Its size is fixed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace mindspeed::data {

class WordCache {
 public:
  static constexpr size_t kMaxBytes = 15, kMaxIds = 4;

  struct Key {
    uint64_t low, high;  // bytes, then the length in the last
  };

  WordCache() : slots_(size_t(1) << kLogSlots) {}

  // `size` is at most kMaxBytes. `may_read_16_bytes`: from `word` on, so many are readable.
  static Key key_of(const uint8_t* word, size_t size, bool may_read_16_bytes) {
    uint64_t key[2] = {0, 0};
    if (may_read_16_bytes) {
      std::memcpy(key, word, sizeof key);
      key[0] &= size >= 8 ? UINT64_MAX : (uint64_t(1) << (8 * size)) - 1;
      key[1] &= size > 8 ? (uint64_t(1) << (8 * (size - 8))) - 1 : 0;
    } else {
      std::memcpy(key, word, size);
    }
    return {key[0], key[1] | uint64_t(size) << 56};
  }

  static size_t set_of(Key key) {
    const uint64_t mixed = (key.low ^ (key.high * 0xC2B2AE3D27D4EB4Full)) * 0x9E3779B97F4A7C15ull;
    return (mixed >> (64 - kLogSlots)) & ~size_t(1);
  }

  void prefetch(size_t set) const { __builtin_prefetch(&slots_[set]); }

  // Copies kMaxIds words to `out` and returns how many are ids; 0 if the word is not there.
  size_t find(Key key, size_t set, uint32_t* out) const {
    for (int way = 0; way < 2; ++way) {
      const Slot& slot = slots_[set + way];
      if (slot.key.low != key.low || slot.key.high != key.high) continue;
      std::memcpy(out, slot.ids, sizeof slot.ids);
      size_t count = 1;
      for (size_t i = 1; i < kMaxIds; ++i) count += slot.ids[i] != kUnused;
      return count;
    }
    return 0;
  }

  void insert(Key key, size_t set, const uint32_t* ids, size_t count) {
    slots_[set + 1] = slots_[set];
    slots_[set].key = key;
    for (size_t i = 0; i < kMaxIds; ++i) slots_[set].ids[i] = i < count ? ids[i] : kUnused;
  }

 private:
  static constexpr int kLogSlots = 18;  // 8 MiB
  static constexpr uint32_t kUnused = UINT32_MAX;

  struct alignas(32) Slot {
    Key key{0, 0};
    uint32_t ids[kMaxIds];
  };
  std::vector<Slot> slots_;
};

}  // namespace mindspeed::data
