// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace mindspeed::bindings {

void bind_cleaning(pybind11::module_& module);

}  // namespace mindspeed::bindings
