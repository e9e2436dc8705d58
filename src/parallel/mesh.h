// SPDX-License-Identifier: Apache-2.0
// The mesh of ranks: how many ranks stand along each named axis, and where this rank stands.
// Word rule: an *axis* is a mesh axis, a *dim* is a tensor dimension.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>

namespace mindspeed::parallel {

/// One axis of the mesh as seen by one rank.
struct MeshAxis {
  int64_t size = 1;
  int64_t rank = 0;
};

/// Named axes ("tensor", "pipeline", ...). An axis that was not set has size 1.
class Mesh {
 public:
  /// Sets an axis. Throws std::invalid_argument unless 0 <= rank < size.
  void set(const std::string& axis, int64_t size, int64_t rank) {
    if (size < 1 || rank < 0 || rank >= size) {
      throw std::invalid_argument(
          "mesh axis '" + axis + "': rank must be in [0, size), got rank " + std::to_string(rank) +
          " of size " + std::to_string(size));
    }
    axes_[axis] = MeshAxis{size, rank};
  }

  MeshAxis axis(const std::string& name) const {
    auto found = axes_.find(name);
    return found == axes_.end() ? MeshAxis{} : found->second;
  }

 private:
  std::map<std::string, MeshAxis> axes_;
};

}  // namespace mindspeed::parallel
