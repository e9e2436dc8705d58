// SPDX-License-Identifier: Apache-2.0
// Initial weights as a counter-based function of (seed, parameter name, global element index):
// every layout and every number of threads starts from the same weights bit for bit.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "export.h"
#include "parallel/mesh.h"
#include "parallel/parameter_owner.h"

namespace mindspeed::models {

/// Fills this rank's part of a parameter with normal(0, standard_deviation) values (Philox 4x32-10,
/// Salmon et al. 2011, then Box-Muller). `local` is a float32 CPU tensor of shape
/// owner.local_shape(mesh), at most two dims.
MINDSPEED_API void fill_normal(
    at::Tensor local,
    const parallel::ParameterOwner& owner,
    const parallel::Mesh& mesh,
    const std::string& name,
    uint64_t seed,
    double standard_deviation);

}  // namespace mindspeed::models
