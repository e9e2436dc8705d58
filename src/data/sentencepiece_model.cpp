// SPDX-License-Identifier: Apache-2.0
// The file is a protobuf (sentencepiece_model.proto); the few fields that matter are read by hand.
#include "data/sentencepiece_model.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <unordered_map>

#include "data/error.h"

namespace mindspeed::data {
namespace {

// The fields of one protobuf message, one after another.
class Message {
 public:
  Message(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  uint32_t field = 0;
  uint64_t number = 0;     // of an integer, a boolean or the bits of a float
  std::string_view bytes;  // of a string or message

  bool next() {
    if (bytes_.empty()) return false;
    const uint64_t tag = varint();
    field = uint32_t(tag >> 3);
    switch (tag & 7) {
      case 0:
        number = varint();
        break;
      case 1:
        number = fixed(8);
        break;
      case 2:
        bytes = take(varint());
        break;
      case 5:
        number = fixed(4);
        break;
      default:
        broken();
    }
    return true;
  }

 private:
  [[noreturn]] void broken() const {
    throw Error(
        where_ +
        ": must be a SentencePiece model (or a rank file or JSON), got something else or "
        "a broken one; is it a Git LFS pointer?");
  }
  std::string_view take(uint64_t size) {
    if (size > bytes_.size()) broken();
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  uint64_t fixed(size_t size) {
    uint64_t value = 0;
    std::memcpy(&value, take(size).data(), size);
    return value;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = uint8_t(take(1)[0]);
      value |= uint64_t(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    broken();
  }

  std::string_view bytes_;
  const std::string& where_;
};

enum PieceType {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};
enum ModelType { kUnigramModel = 1, kBpeModel = 2 };

struct Piece {
  std::string text;  // spaces where the file has U+2581
  float score = 0;
  uint64_t type = kNormal;
};

struct Options {
  uint64_t model_type = kUnigramModel;
  bool byte_fallback = false, space_as_suffix = false;
  uint64_t bos = 1, eos = 2;
};

std::string with_spaces(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const bool sign = text.starts_with("\xE2\x96\x81");
    out += sign ? ' ' : text[0];
    text.remove_prefix(sign ? 3 : 1);
  }
  return out;
}

Piece read_piece(std::string_view bytes, const std::string& where) {
  Piece piece;
  for (Message m(bytes, where); m.next();) {
    const auto bits = uint32_t(m.number);
    if (m.field == 1) piece.text = m.bytes;
    if (m.field == 2) std::memcpy(&piece.score, &bits, sizeof piece.score);
    if (m.field == 3) piece.type = m.number;
  }
  if (piece.type == kNormal) piece.text = with_spaces(piece.text);
  return piece;
}

Options read_options(std::string_view bytes, const std::string& where) {
  Options options;
  for (Message m(bytes, where); m.next();) {
    if (m.field == 3) options.model_type = m.number;
    if (m.field == 24) options.space_as_suffix = m.number;
    if (m.field == 35) options.byte_fallback = m.number;
    if (m.field == 41) options.bos = m.number;
    if (m.field == 42) options.eos = m.number;
  }
  return options;
}

void read_normalizer(std::string_view bytes, Vocabulary& vocabulary, const std::string& where) {
  auto& normalizer = vocabulary.normalizer;
  normalizer.space_before_text = SpaceBeforeText::kAlways;  // the format's defaults
  normalizer.remove_extra_whitespaces = true;
  for (Message m(bytes, where); m.next();) {
    if (m.field == 2 && !m.bytes.empty() && !normalizer.set_map(m.bytes)) {
      throw Error(where + ": normalizer_spec.precompiled_charsmap must be whole, got a broken one");
    }
    if (m.field == 3 && m.number == 0) normalizer.space_before_text = SpaceBeforeText::kNever;
    if (m.field == 4) normalizer.remove_extra_whitespaces = m.number;
    if (m.field == 5 && m.number == 0) {
      throw Error(where + ": normalizer_spec.escape_whitespaces must be true, got false");
    }
  }
}

void place_pieces(
    const std::vector<Piece>& pieces, Vocabulary& vocabulary, const std::string& where) {
  const auto refuse = [&](const Piece& piece, const std::string& kind) {
    throw Error(
        where + ": a model with " + kind + " pieces is not supported, got \"" + piece.text +
        "\"; use the model's tokenizer.json");
  };
  uint32_t byte_ids[256];
  size_t num_bytes = 0;
  for (uint32_t id = 0; id < pieces.size(); ++id) {
    const Piece& piece = pieces[id];
    vocabulary.tokens.push_back(piece.text);
    vocabulary.scores.push_back(piece.score);
    if (piece.type == kUserDefined) refuse(piece, "user-defined");
    if (piece.type == kUnused) refuse(piece, "unused");
    if (piece.type == kUnknown) vocabulary.unknown = id;
    if (piece.type == kUnknown || piece.type == kControl) {
      if (piece.text.empty()) refuse(piece, "empty");
      vocabulary.added_tokens.push_back({piece.text, id, true});
    }
    if (piece.type == kByte) {
      unsigned byte;
      if (std::sscanf(piece.text.c_str(), "<0x%2X>", &byte) != 1) refuse(piece, "misnamed byte");
      byte_ids[byte] = id;
      vocabulary.tokens[id] = char(byte);
      ++num_bytes;
    }
  }
  if (num_bytes == 256) vocabulary.byte_ids.assign(byte_ids, byte_ids + 256);
  if (!vocabulary.unknown) throw Error(where + ": must have an unknown piece, got none");
}

// Two neighbours merge if together they are a piece; the piece with the highest score first.
void add_merges(
    const std::vector<Piece>& pieces, Vocabulary& vocabulary, const std::string& where) {
  std::unordered_map<std::string_view, uint32_t> ids;
  std::vector<float> scores;
  for (uint32_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].type != kNormal) continue;
    ids.emplace(pieces[id].text, id);
    scores.push_back(pieces[id].score);
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  for (const auto& [piece, id] : ids) {
    const auto rank =
        std::lower_bound(scores.begin(), scores.end(), pieces[id].score, std::greater<>()) -
        scores.begin();
    for (size_t i = 1; i < piece.size(); ++i) {
      if ((uint8_t(piece[i]) & 0xC0) == 0x80) continue;
      const auto left = ids.find(piece.substr(0, i)), right = ids.find(piece.substr(i));
      if (left == ids.end() || right == ids.end()) continue;
      vocabulary.merges.push_back({left->second, right->second, id});
      vocabulary.merge_ranks.push_back(uint32_t(rank));
    }
    for (size_t i = 0, end; i < piece.size(); i = end) {
      for (end = i + 1; end < piece.size() && (uint8_t(piece[end]) & 0xC0) == 0x80;) ++end;
      if (!ids.contains(piece.substr(i, end - i))) {
        throw Error(
            where + ": every character of a piece must be a piece, got \"" + std::string(piece) +
            "\"; use the model's tokenizer.json");
      }
    }
  }
}

}  // namespace

Vocabulary read_sentencepiece_model(std::string_view content, const std::string& where) {
  Vocabulary vocabulary;
  std::vector<Piece> pieces;
  Options options;
  for (Message m(content, where); m.next();) {
    if (m.field == 1) pieces.push_back(read_piece(m.bytes, where));
    if (m.field == 2) options = read_options(m.bytes, where);
    if (m.field == 3) read_normalizer(m.bytes, vocabulary, where);
  }
  if (pieces.empty()) {
    throw Error(where + ": a SentencePiece model must have pieces, got none; is the file empty?");
  }
  if (options.model_type != kUnigramModel && options.model_type != kBpeModel) {
    throw Error(
        where + ": trainer_spec.model_type must be unigram (1) or BPE (2), got " +
        std::to_string(options.model_type));
  }
  if (options.space_as_suffix) {
    throw Error(where + ": trainer_spec.treat_whitespace_as_suffix must be false, got true");
  }
  place_pieces(pieces, vocabulary, where);
  if (options.byte_fallback && vocabulary.byte_ids.empty()) {
    throw Error(where + ": a model with byte_fallback must have the 256 byte pieces");
  }
  if (!options.byte_fallback && !vocabulary.byte_ids.empty()) {
    throw Error(where + ": trainer_spec.byte_fallback must be true as there are byte pieces");
  }
  vocabulary.model = options.model_type == kBpeModel ? Model::kCharacterBpe : Model::kUnigram;
  if (vocabulary.model == Model::kCharacterBpe) add_merges(pieces, vocabulary, where);
  const auto control = [&](uint64_t id) -> std::optional<uint32_t> {
    if (id >= pieces.size() || pieces[id].type != kControl) return std::nullopt;
    return uint32_t(id);
  };
  vocabulary.begin_of_text = control(options.bos);
  vocabulary.end_of_text = control(options.eos);
  return vocabulary;
}

}  // namespace mindspeed::data
