// SPDX-License-Identifier: Apache-2.0
// Regions are mapped in multiples of 2 MiB (a huge page) and cut into blocks. A block knows its
// neighbours within its region; free blocks stand in a set ordered by size and address, so the
// smallest that fits is found at once.
#include "memory/buffer_pool.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

namespace mindspeed::memory {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kAlignment = 4096;                // blocks start on page boundaries
constexpr size_t kRegionBytes = size_t{32} << 20;  // small regions would not let neighbours merge

size_t round_up(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

struct Block {
  char* address;
  size_t bytes;
  Block* before = nullptr;  // neighbours in the same region
  Block* after = nullptr;
  bool free = true;
};

struct SmallerFirst {
  bool operator()(const Block* a, const Block* b) const {
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
  }
};

class Pool {
 public:
  // Leaked on purpose: tensors may be freed by static destructors after ours would have run.
  static Pool& instance() {
    static Pool* pool = new Pool();
    return *pool;
  }

  char* take(size_t bytes) {
    const size_t size = round_up(bytes, kAlignment);
    std::lock_guard lock(mutex_);
    TORCH_CHECK_WITH(
        OutOfMemoryError,
        limit_ == 0 || in_use_ + size <= limit_,
        "memory: the pool's limit is ",
        limit_,
        " bytes, ",
        in_use_,
        " are in use and ",
        size,
        " more are asked for; raise the limit, or use smaller micro batches");
    Block* block = find(size);
    block->free = false;
    split(block, size);
    in_use_ += block->bytes;
    peak_in_use_ = std::max(peak_in_use_, in_use_);
    in_use_blocks_.emplace(block->address, block);
    return block->address;
  }

  void give_back(void* address) {
    std::lock_guard lock(mutex_);
    auto found = in_use_blocks_.find(address);
    TORCH_INTERNAL_ASSERT(found != in_use_blocks_.end());
    Block* block = found->second;
    in_use_blocks_.erase(found);
    in_use_ -= block->bytes;
    block->free = true;
    block = merge(block);
    free_.insert(block);
  }

  size_t trim() {
    std::lock_guard lock(mutex_);
    size_t given_back = 0;
    for (auto it = free_.begin(); it != free_.end();) {
      Block* block = *it;
      const bool whole_region = block->before == nullptr && block->after == nullptr;
      if (whole_region) {
        munmap(block->address, block->bytes);
        given_back += block->bytes;
        it = free_.erase(it);
        delete block;
      } else {
        ++it;
      }
    }
    reserved_ -= given_back;
    return given_back;
  }

  PoolStatistics statistics() {
    std::lock_guard lock(mutex_);
    return {false, in_use_, reserved_, peak_in_use_, limit_, reused_, mapped_};
  }

  void reset_peak() {
    std::lock_guard lock(mutex_);
    peak_in_use_ = in_use_;
  }

  void set_limit(size_t bytes) {
    std::lock_guard lock(mutex_);
    limit_ = bytes;
  }

 private:
  Pool() {
    // A fork while another thread holds the lock must not leave the child with a locked pool.
    pthread_atfork(
        [] { instance().mutex_.lock(); },
        [] { instance().mutex_.unlock(); },
        [] { instance().mutex_.unlock(); });
  }

  // The smallest free block of at least `size` bytes, removed from the free set; maps a region when
  // there is none.
  Block* find(size_t size) {
    Block wanted{nullptr, size};
    auto found = free_.lower_bound(&wanted);
    if (found != free_.end()) {
      Block* block = *found;
      free_.erase(found);
      ++reused_;
      return block;
    }
    ++mapped_;
    const size_t bytes = round_up(std::max(size, kRegionBytes), kHugePage);
    auto* block = new Block{map_region(bytes), bytes};
    reserved_ += bytes;
    return block;
  }

  // Maps `bytes` aligned to huge pages, so that the kernel can use them for the whole region.
  static char* map_region(size_t bytes) {
    const size_t room = bytes + kHugePage;
    void* mapped = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(
        mapped != MAP_FAILED,
        "memory: the system refused ",
        bytes,
        " bytes: ",
        std::strerror(errno),
        "; use a smaller micro batch or model");
    auto* start = static_cast<char*>(mapped);
    auto* aligned = reinterpret_cast<char*>(round_up(reinterpret_cast<size_t>(start), kHugePage));
    if (aligned != start) munmap(start, aligned - start);
    const size_t tail = start + room - (aligned + bytes);
    if (tail > 0) munmap(aligned + bytes, tail);
    madvise(aligned, bytes, MADV_HUGEPAGE);
    return aligned;
  }

  // Cuts the rest beyond `size` off as a free block.
  void split(Block* block, size_t size) {
    if (block->bytes - size < BufferPool::kLargeBytes) return;
    auto* rest = new Block{block->address + size, block->bytes - size, block, block->after};
    if (block->after != nullptr) block->after->before = rest;
    block->after = rest;
    block->bytes = size;
    free_.insert(rest);
  }

  Block* merge(Block* block) {
    if (block->before != nullptr && block->before->free) {
      Block* before = block->before;
      free_.erase(before);
      absorb_next(before);
      block = before;
    }
    if (block->after != nullptr && block->after->free) {
      free_.erase(block->after);
      absorb_next(block);
    }
    return block;
  }

  static void absorb_next(Block* block) {
    Block* next = block->after;
    block->bytes += next->bytes;
    block->after = next->after;
    if (next->after != nullptr) next->after->before = block;
    delete next;
  }

  std::mutex mutex_;
  std::set<Block*, SmallerFirst> free_;
  std::unordered_map<void*, Block*> in_use_blocks_;
  size_t in_use_ = 0;
  size_t reserved_ = 0;
  size_t peak_in_use_ = 0;
  size_t limit_ = 0;
  uint64_t reused_ = 0;
  uint64_t mapped_ = 0;
};

void give_back(void* address) {
  Pool::instance().give_back(address);
}

class PoolAllocator final : public c10::Allocator {
 public:
  explicit PoolAllocator(c10::Allocator* previous) : previous_(previous) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (bytes < BufferPool::kLargeBytes) return previous_->allocate(bytes);
    char* address = Pool::instance().take(bytes);
    return {address, address, &give_back, c10::Device(c10::DeviceType::CPU)};
  }

  // No raw deleter: memory from raw_allocate could come from either allocator, so that interface
  // stays closed.
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  c10::Allocator* previous() const { return previous_; }

 private:
  c10::Allocator* previous_;
};

std::mutex switch_mutex;
PoolAllocator* active = nullptr;

}  // namespace

void BufferPool::enable() {
  std::lock_guard lock(switch_mutex);
  if (active != nullptr) return;
  active = new PoolAllocator(c10::GetCPUAllocator());  // never freed: buffers may refer to it
  c10::SetCPUAllocator(active, /*priority=*/1);
}

void BufferPool::disable() {
  std::lock_guard lock(switch_mutex);
  if (active == nullptr) return;
  c10::SetCPUAllocator(active->previous(), /*priority=*/1);
  active = nullptr;
}

size_t BufferPool::trim() {
  return Pool::instance().trim();
}

PoolStatistics BufferPool::statistics() {
  PoolStatistics statistics = Pool::instance().statistics();
  std::lock_guard lock(switch_mutex);
  statistics.enabled = active != nullptr;
  return statistics;
}

void BufferPool::reset_peak() {
  Pool::instance().reset_peak();
}

void BufferPool::set_limit(size_t bytes) {
  Pool::instance().set_limit(bytes);
}

}  // namespace mindspeed::memory
