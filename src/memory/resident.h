// SPDX-License-Identifier: Apache-2.0
// How much memory the kernel counts for this process (Linux).
#pragma once

#include <cstdint>

#include "export.h"

namespace mindspeed::memory {

/// Most resident bytes since the process began or since reset_peak_resident().
/// Throws std::runtime_error where /proc does not tell.
MINDSPEED_API int64_t peak_resident_bytes();

/// Lets the peak start anew from what is resident now. Throws std::runtime_error where the kernel
/// refuses.
MINDSPEED_API void reset_peak_resident();

}  // namespace mindspeed::memory
