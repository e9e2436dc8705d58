// SPDX-License-Identifier: Apache-2.0
#include "models/recomputation.h"

#include <array>
#include <stdexcept>

namespace mindspeed::models {
namespace {

constexpr std::array kNames{"none", "selective", "full"};  // in the order of the enumeration

}  // namespace

Recomputation recomputation_from_name(const std::string& name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<Recomputation>(i);
  }
  throw std::invalid_argument("recompute ('" + name + "') must be one of: none, selective, full");
}

const char* recomputation_name(Recomputation recomputation) {
  return kNames.at(static_cast<size_t>(recomputation));
}

}  // namespace mindspeed::models
