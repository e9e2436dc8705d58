// SPDX-License-Identifier: Apache-2.0
// Scratch memory of one worker. Fresh memory for each task would cost the system's clearing of its
// pages, which at short sequences is as long as the arithmetic.
#pragma once

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mindspeed::ops {

class Workspace {
 public:
  /// What take() gave is free again; the memory stays.
  void start_task() { next_ = 0; }

  /// `size` floats, 64-byte aligned, not cleared; valid until start_task().
  float* take(size_t size) {
    if (next_ == blocks_.size()) blocks_.emplace_back();
    Block& block = blocks_[next_++];
    if (block.size < size || block.data == nullptr) {
      block.size = std::max<size_t>(size, 1);
      block.data = hwy::AllocateAligned<float>(block.size);
    }
    return block.data.get();
  }

 private:
  struct Block {
    size_t size = 0;
    hwy::AlignedFreeUniquePtr<float[]> data;
  };
  std::vector<Block> blocks_;
  size_t next_ = 0;
};

}  // namespace mindspeed::ops
