// SPDX-License-Identifier: Apache-2.0
// One walk over the text measures everything but repeated lines.
#include "data/cleaning_filter.h"

#include <xxhash.h>

#include <algorithm>
#include <unordered_set>

#include "data/character_class.h"
#include "data/error.h"
#include "data/nfc.h"
#include "data/utf8.h"

namespace mindspeed::data {
namespace {

constexpr std::string_view kSpaces = " \t\n\r\f\v";

double share_of_repeated_lines(std::string_view text) {
  std::unordered_set<uint64_t> seen;
  uint64_t all = 0, repeated = 0;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    std::string_view line = text.substr(start, end - start);
    start = end + 1;
    const size_t first = line.find_first_not_of(kSpaces);
    if (first == line.npos) continue;
    line = line.substr(first, line.find_last_not_of(kSpaces) + 1 - first);
    all += line.size();
    if (!seen.insert(XXH3_64bits(line.data(), line.size())).second) repeated += line.size();
  }
  return all == 0 ? 0 : double(repeated) / double(all);
}

struct Limit {
  const char* name;  // the flag's
  const char* reason;
  bool (*broken)(const CleaningOptions&, const TextStatistics&);
};

constexpr Limit kLimits[] = {
    {"min-characters",
     "fewer characters than --min-characters",
     [](const auto& o, const auto& t) { return t.characters < o.min_characters; }},
    {"max-characters",
     "more characters than --max-characters",
     [](const auto& o, const auto& t) { return t.characters > o.max_characters; }},
    {"min-mean-word-length",
     "mean word length below --min-mean-word-length",
     [](const auto& o, const auto& t) { return t.mean_word_length < o.min_mean_word_length; }},
    {"max-mean-word-length",
     "mean word length above --max-mean-word-length",
     [](const auto& o, const auto& t) { return t.mean_word_length > o.max_mean_word_length; }},
    {"min-letter-share",
     "share of letters below --min-letter-share",
     [](const auto& o, const auto& t) { return t.letter_share < o.min_letter_share; }},
    {"max-repeated-line-share",
     "share of repeated lines above --max-repeated-line-share",
     [](const auto& o, const auto& t) {
       return t.repeated_line_share > o.max_repeated_line_share;
     }},
};

void require(bool holds, const char* rule, double value) {
  if (!holds) throw Error(std::string(rule) + ", got " + std::to_string(value));
}

}  // namespace

TextStatistics measure_text(std::string_view text) {
  const uint8_t* classes = character_classes();
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  TextStatistics statistics;
  uint64_t not_space = 0, letters = 0, words = 0;
  bool in_word = false;
  for (size_t i = 0; i < text.size(); ++statistics.characters) {
    uint8_t of_character = 0;
    if (bytes[i] < 0x80) {
      of_character = classes[bytes[i++]];
    } else {
      const DecodedCharacter c = decode_utf8(bytes + i, text.size() - i);
      if (c.valid) of_character = classes[c.code];
      i += c.num_bytes;
    }
    const bool space = (of_character & kSpace) != 0;
    not_space += !space;
    letters += (of_character & (kLetter | kMark)) != 0;
    words += !space && !in_word;
    in_word = !space;
  }
  if (words > 0) {
    statistics.mean_word_length = double(not_space) / double(words);
    statistics.letter_share = double(letters) / double(not_space);
  }
  statistics.repeated_line_share = share_of_repeated_lines(text);
  return statistics;
}

CleaningFilter::CleaningFilter(const CleaningOptions& options) : options_(options) {
  static_assert(std::size(kLimits) == kNumLimits);
  const CleaningOptions keeps_all;
  limited_ = options.min_characters != keeps_all.min_characters ||
             options.max_characters != keeps_all.max_characters ||
             options.min_mean_word_length != keeps_all.min_mean_word_length ||
             options.max_mean_word_length != keeps_all.max_mean_word_length ||
             options.min_letter_share != keeps_all.min_letter_share ||
             options.max_repeated_line_share != keeps_all.max_repeated_line_share;
  // Written so that a NaN fails too.
  require(
      options.min_characters <= options.max_characters,
      "--max-characters must be at least --min-characters",
      double(options.max_characters));
  require(
      options.min_mean_word_length <= options.max_mean_word_length,
      "--max-mean-word-length must be at least --min-mean-word-length",
      options.max_mean_word_length);
  require(
      options.min_letter_share >= 0 && options.min_letter_share <= 1,
      "--min-letter-share must be from 0 to 1",
      options.min_letter_share);
  require(
      options.max_repeated_line_share >= 0 && options.max_repeated_line_share <= 1,
      "--max-repeated-line-share must be from 0 to 1",
      options.max_repeated_line_share);
}

std::string CleaningFilter::apply(uint32_t, uint64_t, std::string& text) {
  if (options_.nfc && normalise_nfc(text)) ++changed_;
  if (!limited_) return {};
  const TextStatistics statistics = measure_text(text);
  for (size_t i = 0; i < kNumLimits; ++i) {
    if (!kLimits[i].broken(options_, statistics)) continue;
    ++dropped_[i];
    return kLimits[i].reason;
  }
  return {};
}

std::vector<std::pair<std::string, uint64_t>> CleaningFilter::counts() const {
  std::vector<std::pair<std::string, uint64_t>> counts{{"nfc", changed_}};
  for (size_t i = 0; i < kNumLimits; ++i) counts.emplace_back(kLimits[i].name, dropped_[i]);
  return counts;
}

}  // namespace mindspeed::data
