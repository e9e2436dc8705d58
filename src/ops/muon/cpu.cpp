// SPDX-License-Identifier: Apache-2.0
// ATen's GEMMs do nearly all of the work; here they write into buffers that one matrix after the
// other uses, where the reference allocates every product.
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/muon/muon.h"
#include "ops/optimizer/parameter_lists.h"
#include "ops/settings.h"

namespace mindspeed::ops {
namespace {

// M x N buffers with M <= N at least as large as the largest matrix.
class Workspace {
 public:
  explicit Workspace(at::TensorList params) {
    int64_t elements = 0, gram = 0;
    for (const at::Tensor& param : params) {
      elements = std::max(elements, param.numel());
      gram = std::max(gram, std::min(param.size(0), param.size(1)));
    }
    for (at::Tensor& buffer : wide_) buffer = at::empty({elements}, at::kFloat);
    for (at::Tensor& buffer : square_) buffer = at::empty({gram * gram}, at::kFloat);
  }

  // Shaped as `matrix`; lives until the next call.
  at::Tensor orthogonalise(const at::Tensor& matrix, int64_t steps) {
    const auto [a, b, c] = kNewtonSchulz;
    const bool tall = matrix.size(0) > matrix.size(1);
    const int64_t rows = std::min(matrix.size(0), matrix.size(1));
    const int64_t columns = std::max(matrix.size(0), matrix.size(1));
    at::Tensor x = shaped(wide_[0], rows, columns);
    at::Tensor next = shaped(wide_[1], rows, columns);
    at::Tensor gram = shaped(square_[0], rows, rows);
    at::Tensor polynomial = shaped(square_[1], rows, rows);
    x.copy_(tall ? matrix.t() : matrix);
    x.div_(x.norm().clamp_min(kSmallestNorm));
    for (int64_t step = 0; step < steps; ++step) {
      at::mm_out(gram, x, x.t());
      at::addmm_out(polynomial, gram, gram, gram, b, c);
      at::addmm_out(next, x, polynomial, x, a, 1);
      std::swap(x, next);
    }
    return tall ? x.t() : x;
  }

 private:
  static at::Tensor shaped(const at::Tensor& buffer, int64_t rows, int64_t columns) {
    return buffer.narrow(0, 0, rows * columns).view({rows, columns});
  }

  at::Tensor wide_[2];
  at::Tensor square_[2];
};

void muon_cpu(
    const MuonSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList momentums,
    at::TensorList masters) {
  if (moment_type(params) == at::kDouble) {
    return reference::muon_(settings, params, grads, momentums, masters);
  }
  check_muon(settings, params, grads, momentums, masters);
  const ParameterLists lists{params, grads, masters};
  Workspace workspace(params);
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].numel() == 0) continue;
    const at::Tensor grad = grads[i].to(at::kFloat) * settings.grad_scale;
    momentums[i].lerp_(grad, 1 - settings.momentum);
    const at::Tensor update =
        settings.nesterov ? grad.lerp(momentums[i], settings.momentum) : momentums[i];
    const at::Tensor direction = workspace.orthogonalise(update, settings.newton_schulz_steps);
    const double rate = settings.lr * learning_rate_factor(settings, params[i].sizes());
    lists.weight(i).mul_(1 - settings.lr * settings.weight_decay).sub_(direction, rate);
    if (!masters.empty()) params[i].copy_(masters[i]);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("muon_", flat_settings<&muon_cpu>());
}

}  // namespace mindspeed::ops
