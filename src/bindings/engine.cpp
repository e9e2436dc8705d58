// SPDX-License-Identifier: Apache-2.0
#include "bindings/bindings.h"

namespace mindspeed::bindings {

void bind_engine(pybind11::module_& /*module*/) {}

}  // namespace mindspeed::bindings
