// SPDX-License-Identifier: Apache-2.0
// A caching allocator for large CPU buffers. The C allocator gives large buffers back to the kernel
// at once, so that a training step pays a page fault for every page of every activation; the pool
// keeps them, on huge pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "export.h"

namespace mindspeed::memory {

struct PoolStatistics {
  bool enabled = false;
  size_t in_use_bytes = 0;       // handed out and not yet freed
  size_t reserved_bytes = 0;     // taken from the kernel: in use or kept for reuse
  size_t peak_in_use_bytes = 0;  // since the last reset_peak()
  size_t limit_bytes = 0;        // 0: none
  uint64_t reused = 0;           // requests served from kept buffers
  uint64_t mapped = 0;           // requests that went to the kernel
};

/// The pool of this process. Thread safe; in a child after fork() it works on with its own copy.
///
/// Requests of at least kLargeBytes are cut from regions of memory by best fit; freed neighbours
/// merge. Smaller ones go to the allocator that was there before. Buffers from before enable() are
/// freed by whoever made them, and buffers of the pool are freed by the pool even after disable().
class MINDSPEED_API BufferPool {
 public:
  static constexpr size_t kLargeBytes = size_t{1} << 20;

  /// Makes the pool torch's CPU allocator. Calling it again changes nothing.
  static void enable();
  /// Puts the earlier allocator back; the pool keeps its buffers until trim().
  static void disable();

  /// Gives regions that hold no buffer back to the kernel. Returns the bytes given back.
  static size_t trim();

  static PoolStatistics statistics();
  static void reset_peak();

  /// From now on a request that would bring in_use_bytes above `bytes` fails with
  /// c10::OutOfMemoryError naming both; 0: no limit.
  static void set_limit(size_t bytes);
};

}  // namespace mindspeed::memory
