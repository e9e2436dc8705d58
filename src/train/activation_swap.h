// SPDX-License-Identifier: Apache-2.0
// Moves what layers keep for backward out of memory, and back just before backward needs it.
#pragma once

#include <memory>

#include "export.h"
#include "memory/swap_medium.h"
#include "parallel/unit_boundary.h"

namespace mindspeed::train {

/// A listener at the boundaries of `num_layers` layers. When a layer's forward is done, what it
/// reported (models/activation_observer.h) and autograd still holds leaves in the background, at
/// most one layer at a time; the last layer's stays, since backward begins there. When backward
/// enters a layer, what it kept is back, and the layer before it is on its way. Results do not
/// change.
std::shared_ptr<parallel::UnitBoundary> make_activation_swap(
    std::shared_ptr<memory::SwapMedium> medium, int64_t num_layers);

}  // namespace mindspeed::train
