// SPDX-License-Identifier: Apache-2.0
// The way from a C++ function to its dispatcher operator, so that C++ callers get autograd and the
// device's kernel.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace mindspeed::ops {

// Function: the type of the C++ function that has the operator's signature. name:
// "mindspeed::rms_norm".
template <class Function>
auto operator_handle(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

}  // namespace mindspeed::ops
