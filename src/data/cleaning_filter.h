// SPDX-License-Identifier: Apache-2.0
// Cleaning: Unicode normal form C, and limits that drop documents which are hardly text. Each limit
// has a name and counts what it drops.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/document_filter.h"

namespace mindspeed::data {

// Measured over characters; a byte that is no valid UTF-8 counts as one.
struct TextStatistics {
  uint64_t characters = 0;
  double mean_word_length = 0;     // characters that are no white space / runs of them
  double letter_share = 0;         // letters and marks / characters that are no white space
  double repeated_line_share = 0;  // bytes of lines that stood before / bytes of all lines
};

// Lines are compared without outer white space; blank ones count nowhere.
TextStatistics measure_text(std::string_view text);

// What a document must have to be kept; the defaults keep all.
struct CleaningOptions {
  bool nfc = false;  // first of all, so that the limits see the text that is kept
  uint64_t min_characters = 0;
  uint64_t max_characters = std::numeric_limits<uint64_t>::max();
  double min_mean_word_length = 0;
  double max_mean_word_length = std::numeric_limits<double>::infinity();
  double min_letter_share = 0;
  double max_repeated_line_share = 1;
};

class CleaningFilter : public DocumentFilter {
 public:
  // Throws Error for a limit that no document can keep.
  explicit CleaningFilter(const CleaningOptions& options);

  std::string apply(uint32_t file, uint64_t offset, std::string& text) override;

  // Documents that NFC changed, and those that each limit dropped: {"nfc", n}, {"min-characters",
  // n} ... A document counts for the first limit that it breaks.
  std::vector<std::pair<std::string, uint64_t>> counts() const;

 private:
  static constexpr size_t kNumLimits = 6;

  CleaningOptions options_;
  bool limited_;
  std::atomic<uint64_t> changed_{0};
  std::array<std::atomic<uint64_t>, kNumLimits> dropped_{};
};

}  // namespace mindspeed::data
