// SPDX-License-Identifier: Apache-2.0
// Sorts more records than fit in memory: full buffers are sorted and go to disk as runs, which are
// merged at the end. The order is that of the records alone, whichever thread added them when.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <type_traits>
#include <vector>

#include "data/dedup/scratch_file.h"

namespace mindspeed::data {

// Record: plain data with a total order (<).
template <typename Record>
class DiskSorter {
  static_assert(std::is_trivially_copyable_v<Record>);

 public:
  // Holds `memory_bytes` of records at most, and when merging at least a page for each run.
  DiskSorter(std::filesystem::path folder, size_t memory_bytes)
      : folder_(std::move(folder)),
        max_records_(std::max<size_t>(1, memory_bytes / sizeof(Record))) {}

  // Several threads may add at a time.
  void add(std::span<const Record> records) {
    const std::lock_guard lock(mutex_);
    for (const Record& record : records) {
      if (buffer_.size() == max_records_) write_run();
      buffer_.push_back(record);
    }
  }
  void add(const Record& record) { add(std::span(&record, 1)); }

  // Calls visit(record) in ascending order; once, after the last add.
  template <typename Visit>
  void for_each(Visit&& visit) {
    std::sort(buffer_.begin(), buffer_.end());
    if (runs_.empty()) {
      for (const Record& record : buffer_) visit(record);
    } else {
      write_run();
      buffer_.shrink_to_fit();
      merge(visit);
    }
    buffer_ = {};
    file_.reset();
  }

 private:
  struct Run {
    uint64_t next, end;  // bytes in the file
    std::vector<Record> buffer;
    size_t at = 0;
  };

  void write_run() {
    if (buffer_.empty()) return;
    if (!file_) file_ = std::make_unique<ScratchFile>(folder_);
    std::sort(buffer_.begin(), buffer_.end());
    const size_t num_bytes = buffer_.size() * sizeof(Record);
    const uint64_t start = file_->append(buffer_.data(), num_bytes);
    runs_.push_back({start, start + num_bytes, {}});
    buffer_.clear();
  }

  bool refill(Run& run) {
    const size_t page = std::max<size_t>(1, 4096 / sizeof(Record));
    const size_t count = std::min(
        std::max(page, max_records_ / runs_.size()), size_t(run.end - run.next) / sizeof(Record));
    run.buffer.resize(count);
    run.at = 0;
    file_->read(run.next, run.buffer.data(), count * sizeof(Record));
    run.next += count * sizeof(Record);
    return count > 0;
  }

  template <typename Visit>
  void merge(Visit& visit) {
    const auto later = [](const Run* a, const Run* b) {
      return b->buffer[b->at] < a->buffer[a->at];
    };
    std::vector<Run*> heap;
    for (Run& run : runs_) {
      if (refill(run)) heap.push_back(&run);
    }
    std::make_heap(heap.begin(), heap.end(), later);
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), later);
      Run& run = *heap.back();
      visit(run.buffer[run.at]);
      if (++run.at < run.buffer.size() || refill(run)) {
        std::push_heap(heap.begin(), heap.end(), later);
      } else {
        heap.pop_back();
      }
    }
    runs_.clear();
  }

  std::filesystem::path folder_;
  size_t max_records_;
  std::mutex mutex_;
  std::vector<Record> buffer_;
  std::unique_ptr<ScratchFile> file_;
  std::vector<Run> runs_;
};

}  // namespace mindspeed::data
