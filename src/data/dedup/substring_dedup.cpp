// SPDX-License-Identifier: Apache-2.0
// Suffixes are compared by their first min_bytes bytes only, and only those count that have as many
// left in their document: so no separator is needed, and a block of text plus min_bytes more is
// sorted as the whole text would be.
#include "data/dedup/substring_dedup.h"

#include <divsufsort.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <tuple>
#include <vector>

#include "data/dedup/disk_sorter.h"
#include "data/dedup/scratch_file.h"
#include "data/dedup/threads.h"
#include "data/error.h"

namespace mindspeed::data {
namespace {

struct Place {
  uint64_t file, offset;
  uint64_t start, num_bytes;  // in the file of all texts
  bool operator<(const Place& other) const {
    return std::tie(file, offset) < std::tie(other.file, other.offset);
  }
};

struct StartRank {
  uint64_t start, num_bytes, rank;
  bool operator<(const StartRank& other) const { return start < other.start; }
};

// One of several places that hold the same min_bytes bytes.
struct Window {
  uint64_t group, rank, at;
  bool operator<(const Window& other) const {
    return std::tie(group, rank, at) < std::tie(other.group, other.rank, other.at);
  }
};

struct Cut {
  uint64_t rank, begin, end;
  bool operator<(const Cut& other) const {
    return std::tie(rank, begin, end) < std::tie(other.rank, other.begin, other.end);
  }
};

bool continues_character(char byte) {
  return (uint8_t(byte) & 0xC0) == 0x80;
}

}  // namespace

class SubstringDedup::Work {
 public:
  explicit Work(const SubstringDedupOptions& options)
      : options_(options),
        incoming_(options.scratch_folder, options.memory_bytes),
        texts_(options.scratch_folder),
        places_(options.scratch_folder),
        starts_(options.scratch_folder),
        cuts_(options.scratch_folder) {}

  void add(uint32_t file, uint64_t offset, std::string_view text) {
    incoming_.add({file, offset, texts_.append(text.data(), text.size()), text.size()});
  }

  SubstringDedupCounts decide() {
    number_documents();
    text_ = texts_.map<char>();
    std::vector<Run> runs = sort_blocks();
    DiskSorter<Window> windows(options_.scratch_folder, options_.memory_bytes / 2);
    find_windows(runs, windows);
    DiskSorter<Cut> cuts(options_.scratch_folder, options_.memory_bytes / 2);
    choose_cuts(windows, cuts);
    join_cuts(cuts);
    return counts_;
  }

  bool cut(uint32_t file, uint64_t offset, std::string& text) const {
    const Place key{file, offset, 0, 0};
    const auto place = std::lower_bound(place_.begin(), place_.end(), key);
    if (place == place_.end() || key < *place) return false;
    const auto rank = uint64_t(place - place_.begin());
    std::string kept;
    size_t copied = 0;
    for (auto one = std::lower_bound(cut_.begin(), cut_.end(), Cut{rank, 0, 0});
         one != cut_.end() && one->rank == rank;
         ++one) {
      size_t begin = one->begin, end = one->end;
      while (begin < end && continues_character(text[begin])) ++begin;
      while (begin < end && end < text.size() && continues_character(text[end])) --end;
      if (begin == end) continue;
      kept.append(text, copied, begin - copied);
      copied = end;
    }
    if (copied == 0) return false;
    kept.append(text, copied);
    text = std::move(kept);
    return true;
  }

 private:
  // Positions in the text, sorted by what begins there; in the file of all runs.
  struct Run {
    std::unique_ptr<ScratchFile> file;
    std::span<const uint64_t> positions = {};
    size_t next = 0;
  };

  void number_documents() {
    DiskSorter<StartRank> by_start(options_.scratch_folder, options_.memory_bytes / 2);
    incoming_.for_each([&](const Place& place) {
      places_.append(&place, sizeof place);
      by_start.add({place.start, place.num_bytes, counts_.documents++});
      counts_.bytes += place.num_bytes;
    });
    place_ = places_.map<Place>();
    by_start.for_each([&](const StartRank& one) {
      if (one.num_bytes >= options_.min_bytes) starts_.append(&one, sizeof one);
    });
    start_ = starts_.map<StartRank>();
  }

  std::vector<Run> sort_blocks() {
    // A suffix array takes four bytes a byte, its positions on the way to disk and marks some more.
    constexpr size_t kBytesPerByte = 6;
    const size_t share = options_.memory_bytes / kBytesPerByte / size_t(options_.threads);
    const size_t block = std::clamp<size_t>(share, size_t(1) << 12, size_t(1) << 30);
    std::vector<Run> runs((text_.size() + block - 1) / block);
    std::atomic<size_t> next{0};
    run_threads(options_.threads, [&](int) {
      for (size_t i; (i = next++) < runs.size();) runs[i] = sort_block(i * block, block);
    });
    return runs;
  }

  Run sort_block(size_t begin, size_t size) {
    const size_t end = std::min(begin + size, text_.size());
    const size_t end_read = std::min(end + options_.min_bytes, text_.size());
    std::vector<saidx_t> suffixes(end_read - begin);
    if (::divsufsort(
            reinterpret_cast<const sauchar_t*>(text_.data() + begin),
            suffixes.data(),
            saidx_t(suffixes.size())) != 0) {
      throw Error("substring dedup: not enough memory; give less to it (--dedup-memory-mb)");
    }
    const std::vector<bool> counts = mark_whole_windows(begin, end);
    Run run{std::make_unique<ScratchFile>(options_.scratch_folder)};
    std::vector<uint64_t> positions;
    const auto flush = [&] {
      run.file->append(positions.data(), positions.size() * sizeof(uint64_t));
      positions.clear();
    };
    for (const saidx_t suffix : suffixes) {
      if (size_t(suffix) >= counts.size() || !counts[size_t(suffix)]) continue;
      positions.push_back(begin + uint64_t(suffix));
      if (positions.size() == 8192) flush();
    }
    flush();
    run.positions = run.file->map<const uint64_t>();
    return run;
  }

  // Which positions from `begin` on have min_bytes left in their document.
  std::vector<bool> mark_whole_windows(uint64_t begin, uint64_t end) const {
    std::vector<bool> marks(end - begin);
    for (auto one = start_.begin() + ptrdiff_t(first_ending_after(begin));
         one != start_.end() && one->start < end;
         ++one) {
      const uint64_t first = std::max(begin, one->start);
      const uint64_t last = std::min(end, one->start + one->num_bytes - options_.min_bytes + 1);
      for (uint64_t i = first; i < last; ++i) marks[i - begin] = true;
    }
    return marks;
  }

  size_t first_ending_after(uint64_t position) const {
    const auto after = std::partition_point(start_.begin(), start_.end(), [&](const auto& one) {
      return one.start + one.num_bytes <= position;
    });
    return size_t(after - start_.begin());
  }

  int compare(uint64_t a, uint64_t b) const {
    return std::memcmp(text_.data() + a, text_.data() + b, options_.min_bytes);
  }

  // Merges the runs; neighbours with equal windows go to `windows`.
  void find_windows(std::vector<Run>& runs, DiskSorter<Window>& windows) {
    const auto later = [&](const Run* a, const Run* b) {
      const uint64_t left = a->positions[a->next], right = b->positions[b->next];
      const int order = compare(left, right);
      return order != 0 ? order > 0 : left > right;
    };
    std::vector<Run*> heap;
    for (Run& run : runs) {
      if (!run.positions.empty()) heap.push_back(&run);
    }
    std::make_heap(heap.begin(), heap.end(), later);
    const auto add = [&](uint64_t group, uint64_t position) {
      const StartRank& document = start_[first_ending_after(position)];
      windows.add({group, document.rank, position - document.start});
    };
    uint64_t group = 0, previous = UINT64_MAX;
    bool in_group = false;
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), later);
      Run& run = *heap.back();
      const uint64_t position = run.positions[run.next];
      const bool equal = previous != UINT64_MAX && compare(previous, position) == 0;
      if (equal) {
        if (!in_group) add(++group, previous);
        add(group, position);
      }
      in_group = equal;
      previous = position;
      if (++run.next < run.positions.size()) {
        std::push_heap(heap.begin(), heap.end(), later);
      } else {
        heap.pop_back();
      }
    }
  }

  // All but the first of each group. Where a later one overlaps the first, the first stays whole.
  void choose_cuts(DiskSorter<Window>& windows, DiskSorter<Cut>& cuts) {
    Window first{};
    windows.for_each([&](const Window& one) {
      if (one.group != first.group) {
        first = one;
        return;
      }
      const uint64_t end = one.at + options_.min_bytes;
      const uint64_t begin =
          one.rank == first.rank ? std::max(one.at, first.at + options_.min_bytes) : one.at;
      if (begin < end) cuts.add({one.rank, begin, end});
    });
  }

  void join_cuts(DiskSorter<Cut>& cuts) {
    Cut open{UINT64_MAX, 0, 0};
    uint64_t last_rank = UINT64_MAX;
    const auto close = [&] {
      if (open.rank == UINT64_MAX) return;
      cuts_.append(&open, sizeof open);
      counts_.removed_bytes += open.end - open.begin;
      counts_.changed_documents += open.rank != last_rank;
      last_rank = open.rank;
    };
    cuts.for_each([&](const Cut& one) {
      if (one.rank == open.rank && one.begin <= open.end) {
        open.end = std::max(open.end, one.end);
        return;
      }
      close();
      open = one;
    });
    close();
    cut_ = cuts_.map<Cut>();
  }

  const SubstringDedupOptions options_;
  DiskSorter<Place> incoming_;
  ScratchFile texts_, places_, starts_, cuts_;
  std::span<const char> text_;
  std::span<const Place> place_;      // by rank
  std::span<const StartRank> start_;  // documents of at least min_bytes, by their start
  std::span<const Cut> cut_;
  SubstringDedupCounts counts_;
};

SubstringDedup::SubstringDedup(const SubstringDedupOptions& options) {
  if (options.min_bytes < 8) {
    throw Error("--substring-bytes must be at least 8, got " + std::to_string(options.min_bytes));
  }
  if (options.threads < 1) {
    throw Error("threads must be at least 1, got " + std::to_string(options.threads));
  }
  work_ = std::make_unique<Work>(options);
}

SubstringDedup::~SubstringDedup() = default;

void SubstringDedup::add(uint32_t file, uint64_t offset, std::string_view text) {
  work_->add(file, offset, text);
}

SubstringDedupCounts SubstringDedup::decide() {
  return work_->decide();
}

bool SubstringDedup::cut(uint32_t file, uint64_t offset, std::string& text) const {
  return work_->cut(file, offset, text);
}

}  // namespace mindspeed::data
