// SPDX-License-Identifier: Apache-2.0
// The ranges that optimizers' settings must lie in.
#pragma once

#include <c10/util/Exception.h>

#include <cmath>

namespace mindspeed::ops {

inline void check_at_least_zero(const char* op, const char* name, double value) {
  TORCH_CHECK_VALUE(
      std::isfinite(value) && value >= 0,
      op,
      ": ",
      name,
      " must be a finite number of at least 0, got ",
      value);
}

inline void check_decay(const char* op, const char* name, double value) {
  TORCH_CHECK_VALUE(value >= 0 && value < 1, op, ": ", name, " must lie in [0, 1), got ", value);
}

}  // namespace mindspeed::ops
