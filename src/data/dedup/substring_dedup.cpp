// SPDX-License-Identifier: Apache-2.0
// First winnowing (Schleimer et al., 2003) leaves out the text that surely repeats nothing: of
// every min_bytes bytes, the gram (half as long) with the smallest hash is their fingerprint, and
// only places whose fingerprint stands elsewhere too go into suffix arrays.
//
// Suffixes are compared by their first min_bytes bytes only, and only those count that have as many
// left in their passage: so no separator is needed, and a block of text plus min_bytes more is
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

// A document, or a passage of one from byte `at` on, in a file of texts.
struct Passage {
  uint64_t start, num_bytes, rank, at;
  bool operator<(const Passage& other) const { return start < other.start; }
};

struct Fingerprint {
  uint64_t hash, position;
  bool operator<(const Fingerprint& other) const {
    return std::tie(hash, position) < std::tie(other.hash, other.position);
  }
};

// Calls visit(hash, where the gram begins) for the fingerprints of all runs of `window` grams.
template <typename Visit>
void winnow(std::string_view text, size_t gram, size_t window, const Visit& visit) {
  if (text.size() < gram + window - 1) return;
  constexpr uint64_t kPrime = 0x9E3779B97F4A7C15;
  uint64_t out = 1;  // factor of the byte that leaves the gram
  for (size_t i = 0; i < gram; ++i) out *= kPrime;
  std::vector<uint64_t> hashes(window);  // of the last grams, by position modulo window
  uint64_t rolling = 0;
  size_t smallest = SIZE_MAX;
  uint64_t smallest_hash = 0;
  for (size_t i = 0, slot = 0; i < text.size(); ++i) {
    rolling = rolling * kPrime + uint8_t(text[i]) + 1;
    if (i >= gram) rolling -= out * (uint8_t(text[i - gram]) + 1);
    if (i + 1 < gram) continue;
    const size_t at = i + 1 - gram;
    const uint64_t hash = (rolling ^ (rolling >> 32)) * kPrime;
    hashes[slot] = hash;
    if (++slot == window) slot = 0;
    const size_t before = smallest;
    if (smallest == SIZE_MAX || hash <= smallest_hash) {
      smallest = at;
      smallest_hash = hash;
    } else if (at - smallest == window) {  // it has left: the rightmost smallest of the others
      smallest = at;
      smallest_hash = hash;
      for (size_t back = 1; back < window; ++back) {
        const uint64_t other = hashes[(slot + window - 1 - back) % window];
        if (other < smallest_hash) {
          smallest = at - back;
          smallest_hash = other;
        }
      }
    }
    if (at + 1 == window || (at + 1 > window && smallest != before)) {
      visit(smallest_hash, smallest);
    }
  }
}

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
        gram_(options.min_bytes / 2),
        incoming_(options.scratch_folder, options.memory_bytes / 2),
        fingerprints_(options.scratch_folder, options.memory_bytes / 2),
        texts_(options.scratch_folder),
        places_(options.scratch_folder),
        passages_(options.scratch_folder),
        repeated_texts_(options.scratch_folder),
        cuts_(options.scratch_folder) {}

  void add(uint32_t file, uint64_t offset, std::string_view text) {
    const uint64_t start = texts_.append(text.data(), text.size());
    incoming_.add({file, offset, start, text.size()});
    thread_local std::vector<Fingerprint> found;
    found.clear();
    winnow(text, gram_, num_grams(), [&](uint64_t hash, size_t at) {
      found.push_back({hash, start + at});
    });
    fingerprints_.add(found);
  }

  SubstringDedupCounts decide() {
    number_documents();
    find_passages();
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

  size_t num_grams() const { return options_.min_bytes - gram_ + 1; }

  void number_documents() {
    incoming_.for_each([&](const Place& place) {
      places_.append(&place, sizeof place);
      ++counts_.documents;
      counts_.bytes += place.num_bytes;
    });
    place_ = places_.map<Place>();
  }

  // Copies what may repeat to `repeated_texts_`, passage by passage.
  void find_passages() {
    DiskSorter<uint64_t> grams(options_.scratch_folder, options_.memory_bytes / 4);
    find_repeated_grams(grams);
    DiskSorter<Passage> by_start(options_.scratch_folder, options_.memory_bytes / 4);
    for (uint64_t rank = 0; rank < place_.size(); ++rank) {
      by_start.add({place_[rank].start, place_[rank].num_bytes, rank, 0});
    }
    ScratchFile documents(options_.scratch_folder);
    by_start.for_each([&](const Passage& one) {
      if (one.num_bytes >= options_.min_bytes) documents.append(&one, sizeof one);
    });
    const std::span<const Passage> document = documents.map<const Passage>();
    size_t current = 0;  // the document of the gram
    uint64_t begin = 0, end = 0;
    const auto close = [&] {
      if (begin < end) copy_passage(document[current], begin, end);
    };
    grams.for_each([&](uint64_t gram) {
      size_t of_gram = current;
      while (document[of_gram].start + document[of_gram].num_bytes <= gram) ++of_gram;
      const Passage& in = document[of_gram];
      // The windows that have the gram in them reach from here to there.
      const uint64_t first = gram < in.start + num_grams() ? in.start : gram + 1 - num_grams();
      const uint64_t last = std::min(gram + options_.min_bytes, in.start + in.num_bytes);
      if (of_gram != current || first > end) {
        close();
        begin = first;
      }
      current = of_gram;
      end = last;
    });
    close();
    text_ = repeated_texts_.map<const char>();
    passage_ = passages_.map<const Passage>();
  }

  // Beginnings of the grams whose hash is a fingerprint in more than one place.
  void find_repeated_grams(DiskSorter<uint64_t>& grams) {
    Fingerprint previous{};
    bool any = false, in_group = false;
    fingerprints_.for_each([&](const Fingerprint& one) {
      const bool equal = any && one.hash == previous.hash;
      if (equal && !in_group) grams.add(previous.position);
      if (equal) grams.add(one.position);
      any = true;
      in_group = equal;
      previous = one;
    });
  }

  void copy_passage(const Passage& document, uint64_t begin, uint64_t end) {
    std::vector<char> bytes(end - begin);
    texts_.read(begin, bytes.data(), bytes.size());
    const Passage passage{
        repeated_texts_.append(bytes.data(), bytes.size()),
        bytes.size(),
        document.rank,
        begin - document.start};
    passages_.append(&passage, sizeof passage);
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

  // Which positions from `begin` on have min_bytes left in their passage.
  std::vector<bool> mark_whole_windows(uint64_t begin, uint64_t end) const {
    std::vector<bool> marks(end - begin);
    for (auto one = passage_.begin() + ptrdiff_t(first_ending_after(begin));
         one != passage_.end() && one->start < end;
         ++one) {
      const uint64_t first = std::max(begin, one->start);
      const uint64_t last = std::min(end, one->start + one->num_bytes - options_.min_bytes + 1);
      for (uint64_t i = first; i < last; ++i) marks[i - begin] = true;
    }
    return marks;
  }

  size_t first_ending_after(uint64_t position) const {
    const auto after = std::partition_point(passage_.begin(), passage_.end(), [&](const auto& one) {
      return one.start + one.num_bytes <= position;
    });
    return size_t(after - passage_.begin());
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
      const Passage& passage = passage_[first_ending_after(position)];
      windows.add({group, passage.rank, passage.at + (position - passage.start)});
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
  const size_t gram_;
  DiskSorter<Place> incoming_;
  DiskSorter<Fingerprint> fingerprints_;
  ScratchFile texts_, places_, passages_, repeated_texts_, cuts_;
  std::span<const char> text_;
  std::span<const Place> place_;      // by rank
  std::span<const Passage> passage_;  // by their start in text_
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
