// SPDX-License-Identifier: Apache-2.0
// The sum of squares over all elements of all tensors, what gradient clipping starts from.
#pragma once

#include <ATen/core/Tensor.h>

#include "export.h"

namespace mindspeed::ops {

// tensors: any shapes, float32, bfloat16, float16 or float64, on one device. Returns a float64
// scalar tensor there (0 for no tensors). Squares and sums are float64 over runs of fixed length,
// so the result is the same on any number of threads. Not differentiable. Raises ValueError for
// other dtypes and for tensors on different devices.
MINDSPEED_API at::Tensor squared_norm(at::TensorList tensors);

void check_squared_norm(at::TensorList tensors);

namespace reference {

// Plain ATen, any device.
at::Tensor squared_norm(at::TensorList tensors);

}  // namespace reference
}  // namespace mindspeed::ops
