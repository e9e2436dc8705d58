// SPDX-License-Identifier: Apache-2.0
// The kernels of swiglu, over the structs of every gated activation. Torch-free.
#pragma once

#include "ops/gated/kernel.h"

namespace mindspeed::ops {

void swiglu_forward_rows(const GatedForward& args, int64_t begin, int64_t end);
void swiglu_backward_rows(const GatedBackward& args, int64_t begin, int64_t end);

}  // namespace mindspeed::ops
