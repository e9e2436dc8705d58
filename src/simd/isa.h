// SPDX-License-Identifier: Apache-2.0
// Which instruction set the kernels run with: the best that this CPU has, or the one that the
// environment variable MINDSPEED_ISA names (baseline, avx2, avx512).
#pragma once

#include <string>

#include "export.h"

namespace mindspeed::simd {

// Name of the instruction set in use: "baseline", "avx2" or "avx512".
// Raises std::invalid_argument when MINDSPEED_ISA names none of these, or one that this CPU lacks.
MINDSPEED_API std::string isa_name();

// Makes the choice, once; every kernel call goes through here (see MINDSPEED_DISPATCH). Raises as
// isa_name() does.
void select_isa();

}  // namespace mindspeed::simd

// Calls the version of a HWY_EXPORTed kernel for the chosen instruction set.
#define MINDSPEED_DISPATCH(kernel) (mindspeed::simd::select_isa(), HWY_DYNAMIC_DISPATCH(kernel))
