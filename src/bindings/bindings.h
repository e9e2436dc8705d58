// SPDX-License-Identifier: Apache-2.0
// One binding function a room; module.cpp calls them. No logic lives in this folder.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace mindspeed::bindings {

void bind_memory(pybind11::module_& module);
void bind_checkpoint(pybind11::module_& module);
void bind_sharding(pybind11::module_& module);
void bind_engine(pybind11::module_& module);

}  // namespace mindspeed::bindings
