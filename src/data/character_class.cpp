// SPDX-License-Identifier: Apache-2.0
// The class table is spread out once from runs of code points: 1.1 MB, of which text touches a few
// pages.
#include "data/character_class.h"

#include <cstring>
#include <vector>

namespace mindspeed::data {
namespace {

struct Range {
  uint32_t first, last;
  uint8_t classes;
};

constexpr Range kRanges[] = {
#include "data/unicode_ranges.inc"
};

std::vector<uint8_t> spread_out() {
  std::vector<uint8_t> table(0x110000);
  for (const Range& range : kRanges) {
    std::memset(table.data() + range.first, range.classes, range.last - range.first + 1);
  }
  return table;
}

}  // namespace

const uint8_t* character_classes() {
  static const std::vector<uint8_t> table = spread_out();
  return table.data();
}

}  // namespace mindspeed::data
