// SPDX-License-Identifier: Apache-2.0
// JSON quoting and the repair of lone surrogates.
#include "data/json.h"

#include <algorithm>
#include <cstring>

namespace mindspeed::data {
namespace {

// Value of the \uXXXX escape at `at`; -1 if there is none.
int unicode_escape(const char* at, const char* end) {
  if (end - at < 6 || at[0] != '\\' || at[1] != 'u') return -1;
  int value = 0;
  for (int i = 2; i < 6; ++i) {
    const char c = at[i];
    int digit;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if ((c | 32) >= 'a' && (c | 32) <= 'f') {
      digit = (c | 32) - 'a' + 10;
    } else {
      return -1;
    }
    value = value * 16 + digit;
  }
  return value;
}

}  // namespace

std::string json_quote(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (uint8_t(c) < 0x20) {
      out += "\\u00";
      out += kHex[uint8_t(c) >> 4];
      out += kHex[c & 15];
    } else {
      out += c;
    }
  }
  return out += '"';
}

uint64_t replace_lone_surrogates(char* json, size_t size) {
  uint64_t count = 0;
  char* const end = json + size;
  for (char* at = json; at < end;) {
    at = static_cast<char*>(std::memchr(at, '\\', end - at));
    if (!at) break;
    const int value = unicode_escape(at, end);
    if (value < 0xD800 || value > 0xDFFF) {
      at += value < 0 ? 2 : 6;
      continue;
    }
    const int following = unicode_escape(at + 6, end);
    if (value < 0xDC00 && following >= 0xDC00 && following <= 0xDFFF) {
      at += 12;
      continue;
    }
    std::copy_n("fffd", 4, at + 2);
    ++count;
    at += 6;
  }
  return count;
}

}  // namespace mindspeed::data
