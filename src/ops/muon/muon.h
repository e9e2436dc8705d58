// SPDX-License-Identifier: Apache-2.0
// Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon): the momentum of a matrix,
// its singular values brought near 1 by Newton-Schulz steps:
//   g = grad * grad_scale            b = momentum b + (1 - momentum) g
//   u = nesterov ? momentum b + (1 - momentum) g : b
//   p = (1 - lr * weight_decay) p - lr * factor(shape) * orthogonalise(u)
// One step of orthogonalise: X = a X + (b A + c A A) X with A = X X^T, from X = u / |u| and with
// (a, b, c) = (3.4445, -4.7750, 2.0315); a matrix with more rows than columns is transposed for it.
#pragma once

#include <ATen/core/Tensor.h>

#include "export.h"
#include "ops/muon/settings.h"

namespace mindspeed::ops {

inline constexpr double kNewtonSchulz[] = {3.4445, -4.7750, 2.0315};
inline constexpr double kSmallestNorm = 1e-7;  // a gradient of zeros stays zeros

// Updates params, momentums and masters in place; lists and dtypes as for adamw_, with one moment
// and matrices only. The GEMMs, 2 min(M,N)^2 (2 max(M,N) + min(M,N)) operations a step, are ATen's
// in float32 (float64 for float64). Not differentiable. Raises ValueError for a parameter that is
// not a matrix, for lists that do not match and for settings out of their range.
MINDSPEED_API void muon_(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList momentums,
    at::TensorList masters,
    const MuonSettings& settings);

void check_muon(
    const MuonSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList momentums,
    at::TensorList masters);

// What lr is multiplied by for a matrix of this shape.
double learning_rate_factor(const MuonSettings& settings, at::IntArrayRef shape);

namespace reference {

// Plain ATen, any device.
void muon_(
    const MuonSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList momentums,
    at::TensorList masters);

}  // namespace reference
}  // namespace mindspeed::ops
