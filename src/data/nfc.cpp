// SPDX-License-Identifier: Apache-2.0
// Only characters that NFC may change, or that may join the one before them, are "active"; text
// between them is copied as it is. utf8proc's data says which, and composes.
#include "data/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "data/utf8.h"

namespace mindspeed::data {
namespace {

constexpr char32_t kFirstActive = 0x300;  // below it, nothing is
constexpr char32_t kNumCodes = 0x110000;

using Decomposition = std::array<utf8proc_int32_t, 32>;  // the longest of Unicode has 18

size_t decompose(char32_t code, Decomposition& into) {
  int last_class = UTF8PROC_BOUNDCLASS_START;
  return size_t(utf8proc_decompose_char(
      utf8proc_int32_t(code),
      into.data(),
      utf8proc_ssize_t(into.size()),
      utf8proc_option_t(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE),
      &last_class));
}

utf8proc_ssize_t compose(std::vector<utf8proc_int32_t>& codes) {
  return utf8proc_normalize_utf32(
      codes.data(),
      utf8proc_ssize_t(codes.size()),
      utf8proc_option_t(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
}

bool is_joining_jamo(char32_t code) {
  return (code >= 0x1161 && code <= 0x1175) || (code >= 0x11A8 && code <= 0x11C2);
}

std::vector<bool> find_active() {
  std::vector<bool> active(kNumCodes);
  Decomposition parts;
  std::vector<utf8proc_int32_t> codes;
  for (char32_t code = kFirstActive; code < kNumCodes; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    if (is_joining_jamo(code) || utf8proc_get_property(utf8proc_int32_t(code))->combining_class) {
      active[code] = true;
    }
    if (code >= 0xAC00 && code < 0xD7A4) continue;  // syllables: of jamo, and composed already
    const size_t count = decompose(code, parts);
    if (count == 1 && char32_t(parts[0]) == code) continue;
    // What follows the first part of a decomposition may join what stands before it.
    for (size_t i = 1; i < count; ++i) active[size_t(parts[i])] = true;
    codes.assign(parts.begin(), parts.begin() + ptrdiff_t(count));
    if (compose(codes) != 1 || char32_t(codes[0]) != code) active[code] = true;
  }
  return active;
}

// Appends the normal form of `text`, a base character and the active ones after it.
void append_normalised(std::string_view text, std::string& out) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  std::vector<utf8proc_int32_t> codes;
  Decomposition parts;
  for (size_t i = 0; i < text.size();) {
    const DecodedCharacter c = decode_utf8(bytes + i, text.size() - i);
    const size_t count = decompose(c.code, parts);
    codes.insert(codes.end(), parts.begin(), parts.begin() + ptrdiff_t(count));
    i += c.num_bytes;
  }
  // Canonical order: each run of marks by class. utf8proc's own sort is quadratic in the run.
  const auto mark_class = [](utf8proc_int32_t code) {
    return utf8proc_get_property(code)->combining_class;
  };
  for (size_t i = 0; i < codes.size(); ++i) {
    size_t end = i;
    while (end < codes.size() && mark_class(codes[end]) != 0) ++end;
    std::stable_sort(
        codes.begin() + ptrdiff_t(i), codes.begin() + ptrdiff_t(end), [&](auto a, auto b) {
          return mark_class(a) < mark_class(b);
        });
    i = end;
  }
  const utf8proc_ssize_t count = compose(codes);
  for (utf8proc_ssize_t i = 0; i < count; ++i) append_utf8(out, char32_t(codes[size_t(i)]));
}

}  // namespace

bool normalise_nfc(std::string& text) {
  static const std::vector<bool> active = find_active();
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  std::string out;
  size_t copied = 0;  // text before this is in `out`
  bool changed = false;
  size_t base = 0;  // where the last character began, if it is valid
  for (size_t i = 0; i < text.size();) {
    if (bytes[i] < 0x80) {
      base = i++;
      continue;
    }
    DecodedCharacter c = decode_utf8(bytes + i, text.size() - i);
    if (!c.valid || c.code < kFirstActive || !active[c.code]) {
      base = c.valid ? i : i + 1;
      i += c.num_bytes;
      continue;
    }
    const size_t start = std::min(base, i);
    while (i < text.size() && c.valid && active[c.code]) {
      i += c.num_bytes;
      if (i < text.size()) c = decode_utf8(bytes + i, text.size() - i);
    }
    out.append(text, copied, start - copied);
    const size_t at = out.size();
    append_normalised(std::string_view(text).substr(start, i - start), out);
    changed |= std::string_view(out).substr(at) != std::string_view(text).substr(start, i - start);
    copied = base = i;
  }
  if (!changed) return false;
  out.append(text, copied);
  text = std::move(out);
  return true;
}

}  // namespace mindspeed::data
