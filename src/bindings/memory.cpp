// SPDX-License-Identifier: Apache-2.0
#include "bindings/bindings.h"

namespace mindspeed::bindings {

void bind_memory(pybind11::module_& /*module*/) {}

}  // namespace mindspeed::bindings
