// SPDX-License-Identifier: Apache-2.0
// Documents are numbered by rank, their place in the order of (file, offset). Per document there is
// a signature on disk, and arrays (mapped files) of what became of it.
#include "data/dedup/document_dedup.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <tuple>
#include <vector>

#include "data/dedup/disk_sorter.h"
#include "data/dedup/min_hash.h"
#include "data/dedup/scratch_file.h"
#include "data/dedup/shingles.h"
#include "data/dedup/threads.h"
#include "data/error.h"

namespace mindspeed::data {
namespace {

constexpr uint64_t kNoSignature = UINT64_MAX;

struct Entry {
  uint64_t file, offset;
  uint64_t signature;  // which one in the file of signatures
  uint64_t hash_high, hash_low;
  uint64_t num_bytes;
  bool operator<(const Entry& other) const {
    return file != other.file ? file < other.file : offset < other.offset;
  }
};

struct HashedRank {
  uint64_t hash_high, hash_low, rank;
  bool operator<(const HashedRank& other) const {
    return std::tie(hash_high, hash_low, rank) <
           std::tie(other.hash_high, other.hash_low, other.rank);
  }
};

struct BandRank {
  uint64_t band_hash, rank;
  bool operator<(const BandRank& other) const {
    return std::tie(band_hash, rank) < std::tie(other.band_hash, other.rank);
  }
};

// Two documents whose signatures are alike; twin < rank.
struct Edge {
  uint64_t rank, twin;
  bool operator<(const Edge& other) const {
    return std::tie(rank, twin) < std::tie(other.rank, other.twin);
  }
};

// The documents of one bucket (those with an equal band), by rank. Each is compared with the
// bucket's leaders, the earlier documents that were like none before them, instead of with all.
class Bucket {
 public:
  // More leaders than this in one bucket are boilerplate that shares one band by accident;
  // the cap keeps the work linear.
  static constexpr size_t kMaxLeaders = 64;

  void start() { leaders_.clear(); }

  // Calls on_edge(leader) for each leader that `alike` accepts.
  template <typename Alike, typename OnEdge>
  void add(uint64_t rank, const Alike& alike, const OnEdge& on_edge) {
    bool found = false;
    for (const uint64_t leader : leaders_) {
      if (!alike(leader, rank)) continue;
      found = true;
      on_edge(leader);
    }
    if (!found && leaders_.size() < kMaxLeaders) leaders_.push_back(rank);
  }

 private:
  std::vector<uint64_t> leaders_;
};

}  // namespace

class DocumentDedup::Work {
 public:
  explicit Work(const DocumentDedupOptions& options)
      : options_(options),
        incoming_(options.scratch_folder, options.memory_bytes),
        signatures_(options.scratch_folder),
        documents_(options.scratch_folder),
        twins_(options.scratch_folder),
        fates_(options.scratch_folder) {}

  void add(uint32_t file, uint64_t offset, std::string_view text) {
    const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
    Entry document{file, offset, kNoSignature, hash.high64, hash.low64, text.size()};
    if (options_.near) {
      thread_local std::vector<uint32_t> shingles;
      hash_shingles(text, shingles);
      if (!shingles.empty()) {
        const Signature signature = min_hash(shingles);
        document.signature =
            signatures_.append(signature.data(), sizeof signature) / sizeof signature;
      }
    }
    incoming_.add(document);
  }

  DocumentDedupCounts decide() {
    number_documents();
    drop_exact();
    if (options_.near) drop_near();
    count_clusters();
    return counts_;
  }

  Likeness find(uint32_t file, uint64_t offset) const {
    const Entry key{file, offset, 0, 0, 0, 0};
    const auto found = std::lower_bound(document_.begin(), document_.end(), key);
    if (found == document_.end() || key < *found) return Likeness::kNone;
    return fate_[size_t(found - document_.begin())];
  }

 private:
  void number_documents() {
    std::vector<Entry> block;
    const auto flush = [&] {
      documents_.append(block.data(), block.size() * sizeof(Entry));
      block.clear();
    };
    Entry last{};
    incoming_.for_each([&](const Entry& document) {
      if (counts_.documents++ > 0 && !(last < document)) {
        throw Error(
            "dedup: each document must be added once, got file " + std::to_string(document.file) +
            " offset " + std::to_string(document.offset) + " twice");
      }
      last = document;
      counts_.bytes += document.num_bytes;
      block.push_back(document);
      if (block.size() == 4096) flush();
    });
    flush();
    twins_.resize(counts_.documents * sizeof(uint64_t));
    fates_.resize(counts_.documents * sizeof(Likeness));
    document_ = documents_.map<Entry>();
    twin_ = twins_.map<uint64_t>();
    fate_ = fates_.map<Likeness>();
  }

  void drop(uint64_t rank, uint64_t twin, Likeness why) {
    twin_[rank] = twin;
    fate_[rank] = why;
    ++(why == Likeness::kExact ? counts_.exact_documents : counts_.near_documents);
    (why == Likeness::kExact ? counts_.exact_bytes : counts_.near_bytes) +=
        document_[rank].num_bytes;
  }

  void drop_exact() {
    DiskSorter<HashedRank> sorter(options_.scratch_folder, options_.memory_bytes);
    for (uint64_t rank = 0; rank < document_.size(); ++rank) {
      sorter.add({document_[rank].hash_high, document_[rank].hash_low, rank});
    }
    HashedRank first{};
    bool any = false;
    sorter.for_each([&](const HashedRank& one) {
      const bool equal = any && one.hash_high == first.hash_high && one.hash_low == first.hash_low;
      if (equal) {
        drop(one.rank, first.rank, Likeness::kExact);
      } else {
        first = one;
        any = true;
      }
    });
  }

  bool alike(uint64_t a, uint64_t b) {
    return num_equal(signature_[document_[a].signature], signature_[document_[b].signature]) >=
           min_equal_;
  }

  void drop_near() {
    signature_ = signatures_.map<Signature>();
    min_equal_ = uint32_t(double(kNumHashes) * options_.near_threshold + 0.999999);
    std::vector<std::unique_ptr<DiskSorter<BandRank>>> bands;
    for (size_t i = 0; i < kNumBands; ++i) {
      bands.push_back(std::make_unique<DiskSorter<BandRank>>(
          options_.scratch_folder, options_.memory_bytes / (kNumBands + 1)));
    }
    DiskSorter<Edge> edges(options_.scratch_folder, options_.memory_bytes / (kNumBands + 1));
    fill_bands(bands);
    std::atomic<size_t> next{0};
    std::atomic<uint64_t> compared{0};
    run_threads(options_.threads, [&](int) {
      for (size_t band; (band = next++) < kNumBands;) compared += find_edges(*bands[band], edges);
    });
    counts_.compared_pairs = compared;
    follow_edges(edges);
  }

  void fill_bands(std::vector<std::unique_ptr<DiskSorter<BandRank>>>& bands) {
    constexpr size_t kBlock = 512;  // ranks, so that the sorters' locks are taken seldom
    std::atomic<uint64_t> next{0};
    run_threads(options_.threads, [&](int) {
      std::array<std::vector<BandRank>, kNumBands> blocks;
      for (uint64_t start; (start = next.fetch_add(kBlock)) < document_.size();) {
        const uint64_t end = std::min<uint64_t>(start + kBlock, document_.size());
        for (uint64_t rank = start; rank < end; ++rank) {
          const uint64_t signature = document_[rank].signature;
          if (fate_[rank] != Likeness::kNone || signature == kNoSignature) continue;
          for (size_t band = 0; band < kNumBands; ++band) {
            blocks[band].push_back({band_hash(signature_[signature], band), rank});
          }
        }
        for (size_t band = 0; band < kNumBands; ++band) {
          bands[band]->add(blocks[band]);
          blocks[band].clear();
        }
      }
    });
  }

  // Returns how many pairs it compared.
  uint64_t find_edges(DiskSorter<BandRank>& band, DiskSorter<Edge>& edges) {
    Bucket bucket;
    uint64_t hash = 0, compared = 0;
    bool any = false;
    band.for_each([&](const BandRank& one) {
      if (!any || one.band_hash != hash) bucket.start();
      any = true;
      hash = one.band_hash;
      bucket.add(
          one.rank,
          [&](uint64_t a, uint64_t b) { return ++compared, alike(a, b); },
          [&](uint64_t leader) {
            edges.add({one.rank, leader});
          });
    });
    return compared;
  }

  // By rank, so that of every pair the earlier one's fate is known. A document like one that was
  // dropped is compared with the one that was kept in its place.
  void follow_edges(DiskSorter<Edge>& edges) {
    edges.for_each([&](const Edge& edge) {
      if (fate_[edge.rank] != Likeness::kNone) return;
      const bool kept = fate_[edge.twin] == Likeness::kNone;
      if (kept) {
        drop(edge.rank, edge.twin, Likeness::kNear);
      } else if (++counts_.compared_pairs; alike(twin_[edge.twin], edge.rank)) {
        drop(edge.rank, twin_[edge.twin], Likeness::kNear);
      }
    });
  }

  void count_clusters() {
    DiskSorter<uint64_t> kept(options_.scratch_folder, options_.memory_bytes);
    for (uint64_t rank = 0; rank < document_.size(); ++rank) {
      if (fate_[rank] == Likeness::kNone) continue;
      const uint64_t twin = twin_[rank];  // of an equal copy: perhaps dropped as near itself
      kept.add(fate_[twin] == Likeness::kNone ? twin : twin_[twin]);
    }
    uint64_t last = 0, copies = 0;
    kept.for_each([&](uint64_t rank) {
      copies = copies > 0 && rank == last ? copies + 1 : 1;
      counts_.clusters += copies == 1;
      counts_.largest_cluster = std::max(counts_.largest_cluster, copies);
      last = rank;
    });
  }

  const DocumentDedupOptions options_;
  DiskSorter<Entry> incoming_;
  ScratchFile signatures_, documents_, twins_, fates_;
  std::span<Entry> document_;  // by rank, as the two below
  std::span<uint64_t> twin_;   // the one kept in its place
  std::span<Likeness> fate_;
  std::span<Signature> signature_;
  uint32_t min_equal_ = 0;
  DocumentDedupCounts counts_;
};

DocumentDedup::DocumentDedup(const DocumentDedupOptions& options) {
  if (!(options.near_threshold > 0 && options.near_threshold <= 1)) {
    throw Error(
        "--near-threshold must be above 0 and at most 1, got " +
        std::to_string(options.near_threshold));
  }
  if (options.threads < 1) {
    throw Error("threads must be at least 1, got " + std::to_string(options.threads));
  }
  work_ = std::make_unique<Work>(options);
}

DocumentDedup::~DocumentDedup() = default;

void DocumentDedup::add(uint32_t file, uint64_t offset, std::string_view text) {
  work_->add(file, offset, text);
}

DocumentDedupCounts DocumentDedup::decide() {
  return work_->decide();
}

Likeness DocumentDedup::find(uint32_t file, uint64_t offset) const {
  return work_->find(file, offset);
}

}  // namespace mindspeed::data
