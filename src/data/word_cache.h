// SPDX-License-Identifier: Apache-2.0
// The ids of words met before: words of up to 15 bytes and 4 ids, in sets of two slots of one cache
// line; the older of a full set goes. Its size is fixed.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

namespace mindspeed::data {

class WordCache {
 public:
  static constexpr size_t kMaxBytes = 15, kMaxIds = 4;

  struct Key {
    uint64_t low, high;  // bytes, then the length in the last
  };

  WordCache() : slots_(allocate()) { std::memset(static_cast<void*>(slots_.get()), 0, kBytes); }
  WordCache(const WordCache& other) : slots_(allocate()) {
    std::memcpy(static_cast<void*>(slots_.get()), other.slots_.get(), kBytes);
  }
  WordCache& operator=(const WordCache&) = delete;

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
      if (((slot.key.low ^ key.low) | (slot.key.high ^ key.high)) != 0) continue;
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
  static constexpr int kLogSlots = 19;  // 16 MiB
  static constexpr uint32_t kUnused = UINT32_MAX;

  struct alignas(32) Slot {
    Key key;
    uint32_t ids[kMaxIds];
  };
  struct Free {
    void operator()(Slot* slots) const { std::free(slots); }
  };
  static constexpr size_t kBytes = (size_t(1) << kLogSlots) * sizeof(Slot);

  // In large pages where the system has them, which must be asked for before the first touch: words
  // lie anywhere, and an address in a small page costs as much to translate as to read.
  static Slot* allocate() {
    constexpr size_t kLargePage = size_t(1) << 21;
    auto* const slots = static_cast<Slot*>(std::aligned_alloc(kLargePage, kBytes));
    if (!slots) throw std::bad_alloc();
    madvise(slots, kBytes, MADV_HUGEPAGE);
    return slots;
  }

  std::unique_ptr<Slot[], Free> slots_;
};

// The same for words of up to 63 bytes and 15 ids: fewer, one slot for each hash.
class LongWordCache {
 public:
  static constexpr size_t kMaxBytes = 63, kMaxIds = 15;

  LongWordCache() : slots_(kSlots) {}

  static size_t slot_of(std::string_view word) {
    uint64_t hash = word.size();
    for (size_t i = 0; i < word.size(); i += 8) {
      uint64_t eight = 0;
      std::memcpy(&eight, word.data() + i, std::min(sizeof eight, word.size() - i));
      hash = (hash ^ eight) * 0x9E3779B97F4A7C15ull;
      hash ^= hash >> 29;
    }
    return hash % kSlots;
  }

  // Writes the ids to `out` and returns how many; 0 if the word is not there.
  size_t find(std::string_view word, size_t slot, uint32_t* out) const {
    const Slot& found = slots_[slot];
    if (found.num_bytes != word.size() || std::memcmp(found.bytes, word.data(), word.size()) != 0) {
      return 0;
    }
    std::memcpy(out, found.ids, found.num_ids * sizeof *out);
    return found.num_ids;
  }

  void insert(std::string_view word, size_t slot, const uint32_t* ids, size_t count) {
    Slot& changed = slots_[slot];
    changed.num_bytes = uint8_t(word.size());
    changed.num_ids = uint32_t(count);
    std::memcpy(changed.bytes, word.data(), word.size());
    std::memcpy(changed.ids, ids, count * sizeof *ids);
  }

 private:
  static constexpr size_t kSlots = size_t(1) << 15;  // 4 MiB

  struct alignas(64) Slot {
    uint8_t num_bytes = 0;
    char bytes[kMaxBytes];
    uint32_t num_ids;
    uint32_t ids[kMaxIds];
  };
  std::vector<Slot> slots_;
};

}  // namespace mindspeed::data
