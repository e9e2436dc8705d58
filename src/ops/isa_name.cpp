// SPDX-License-Identifier: Apache-2.0
// torch.ops.mindspeed.isa_name(): the instruction set the kernels use (see simd/isa.h).
#include <torch/library.h>

#include "simd/isa.h"

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def("isa_name() -> str", mindspeed::simd::isa_name);
}
