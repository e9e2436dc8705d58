// SPDX-License-Identifier: Apache-2.0
// A parameter knows its owners: its global shape and along which mesh axis which of its dims is
// cut. Initialisation, gradient reduction, the gradient norm, clipping and checkpoints read this
// and nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/mesh.h"

namespace mindspeed::parallel {

/// How one parameter is laid over the mesh. An empty split_axis means that every rank holds all of
/// it.
struct ParameterOwner {
  std::vector<int64_t> global_shape;
  std::string split_axis;
  int64_t split_dim = 0;

  /// The part of dim `split_dim` that the rank at `mesh` holds, as [start, start + length).
  struct Range {
    int64_t start;
    int64_t length;
  };

  Range local_range(const Mesh& mesh) const {
    const int64_t extent = global_shape[split_dim];
    if (split_axis.empty()) return {0, extent};
    const MeshAxis axis = mesh.axis(split_axis);
    const int64_t length = extent / axis.size;
    return {axis.rank * length, length};
  }

  std::vector<int64_t> local_shape(const Mesh& mesh) const {
    std::vector<int64_t> shape = global_shape;
    shape[split_dim] = local_range(mesh).length;
    return shape;
  }
};

}  // namespace mindspeed::parallel
