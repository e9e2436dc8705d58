// SPDX-License-Identifier: Apache-2.0
// Sums are kept as SentencePiece keeps them (float, compared after a sum in float), so that equal
// scores fall alike.
#include "data/unigram.h"

#include <algorithm>

#include "data/utf8.h"

namespace mindspeed::data {
namespace {

size_t total_bytes(const std::vector<Unigram::Piece>& pieces) {
  size_t total = 0;
  for (const Unigram::Piece& piece : pieces) total += piece.text.size();
  return total;
}

}  // namespace

Unigram::Unigram(const std::vector<Piece>& pieces)
    : children_(total_bytes(pieces)), ids_{kUnknownPart}, scores_{0} {
  float least = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    least = i == 0 ? piece.score : std::min(least, piece.score);
    uint32_t node = 0;
    for (const char byte : piece.text) {
      const Merge child = children_.find(node, uint8_t(byte));
      if (child.rank == kNoRank) {
        const auto next = uint32_t(ids_.size());
        children_.insert(node, uint8_t(byte), {0, next});
        ids_.push_back(kUnknownPart);
        scores_.push_back(0);
        node = next;
      } else {
        node = child.id;
      }
    }
    ids_[node] = piece.id;
    scores_[node] = piece.score;
  }
  unknown_score_ = least - 10;
}

void Unigram::cut(std::string_view text, std::vector<Part>& parts) const {
  struct Best {
    float score = 0;
    uint32_t id = kUnknownPart;
    uint32_t num_bytes = 0;  // of the last part; 0: no way here yet
  };
  std::vector<Best> best(text.size() + 1);  // of the text before each byte
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const auto improve = [&](size_t end, float score, uint32_t id, size_t num_bytes) {
    if (best[end].num_bytes == 0 || score > best[end].score) {
      best[end] = {score, id, uint32_t(num_bytes)};
    }
  };
  for (size_t start = 0; start < text.size();) {
    const size_t character_bytes = decode_utf8(bytes + start, text.size() - start).num_bytes;
    bool has_single = false;
    uint32_t node = 0;
    for (size_t end = start; end < text.size();) {
      const Merge child = children_.find(node, bytes[end]);
      if (child.rank == kNoRank) break;
      node = child.id;
      ++end;
      if (ids_[node] == kUnknownPart) continue;
      improve(end, scores_[node] + best[start].score, ids_[node], end - start);
      has_single |= end - start == character_bytes;
    }
    if (!has_single) {
      improve(
          start + character_bytes,
          unknown_score_ + best[start].score,
          kUnknownPart,
          character_bytes);
    }
    start += character_bytes;
  }
  const size_t first = parts.size();
  for (size_t end = text.size(); end > 0; end -= best[end].num_bytes) {
    parts.push_back({best[end].id, best[end].num_bytes});
  }
  std::reverse(parts.begin() + ptrdiff_t(first), parts.end());
}

}  // namespace mindspeed::data
