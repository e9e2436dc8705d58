// SPDX-License-Identifier: Apache-2.0
#include "ops/muon/muon.h"

#include <ATen/ops/addmm.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "ops/optimizer/parameter_lists.h"
#include "ops/optimizer/ranges.h"
#include "ops/settings.h"

namespace mindspeed::ops {

void check_muon(
    const MuonSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList momentums,
    at::TensorList masters) {
  check_at_least_zero("muon_", "lr", settings.lr);
  check_decay("muon_", "momentum", settings.momentum);
  check_at_least_zero("muon_", "weight_decay", settings.weight_decay);
  TORCH_CHECK_VALUE(
      settings.newton_schulz_steps >= 1 && settings.newton_schulz_steps <= 100,
      "muon_: newton_schulz_steps must lie in [1, 100], got ",
      settings.newton_schulz_steps);
  check_parameters("muon_", {params, grads, masters});
  for (size_t i = 0; i < params.size(); ++i) {
    TORCH_CHECK_VALUE(
        params[i].dim() == 2,
        "muon_: params must be matrices, got shape ",
        params[i].sym_sizes(),
        " at index ",
        i,
        "; update others with adamw_");
  }
  check_states("muon_", "momentums", params, momentums, moment_type(params));
}

double learning_rate_factor(const MuonSettings& settings, at::IntArrayRef shape) {
  const auto rows = static_cast<double>(shape[0]);
  const auto columns = static_cast<double>(shape[1]);
  return settings.match_adamw_rms ? 0.2 * std::sqrt(std::max(rows, columns))
                                  : std::sqrt(std::max(1.0, rows / columns));
}

namespace {

// Like under no_grad: leaf parameters are updated, and what saved an older value notices.
void below_autograd(
    const MuonSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList momentums,
    at::TensorList masters) {
  {
    at::AutoDispatchBelowADInplaceOrView below;
    muon_(params, grads, momentums, masters, settings);
  }
  bump_versions({params, momentums, masters});
}

at::Tensor orthogonalised(const at::Tensor& matrix, int64_t steps) {
  const auto [a, b, c] = kNewtonSchulz;
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = tall ? matrix.t() : matrix;
  x = x / x.norm().clamp_min(kSmallestNorm);
  for (int64_t step = 0; step < steps; ++step) {
    const at::Tensor gram = x.matmul(x.t());
    const at::Tensor polynomial = at::addmm(gram, gram, gram, b, c);
    x = at::addmm(x, polynomial, x, a, 1);
  }
  return tall ? x.t() : x;
}

}  // namespace

namespace reference {

void muon_(
    const MuonSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList momentums,
    at::TensorList masters) {
  check_muon(settings, params, grads, momentums, masters);
  const ParameterLists lists{params, grads, masters};
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].numel() == 0) continue;
    const at::Tensor& momentum = momentums[i];
    const at::Tensor grad = grads[i].detach().to(momentum.scalar_type()) * settings.grad_scale;
    momentum.lerp_(grad, 1 - settings.momentum);
    const at::Tensor update = settings.nesterov ? grad.lerp(momentum, settings.momentum) : momentum;
    const at::Tensor weight = lists.weight(i).detach();
    const double rate = settings.lr * learning_rate_factor(settings, params[i].sizes());
    weight.mul_(1 - settings.lr * settings.weight_decay)
        .sub_(orthogonalised(update, settings.newton_schulz_steps), rate);
    if (!masters.empty()) params[i].detach().copy_(weight);
  }
}

}  // namespace reference

void muon_(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList momentums,
    at::TensorList masters,
    const MuonSettings& settings) {
  static const auto op = operator_with_settings<&check_muon>("mindspeed::muon_");
  call_with_settings(op, settings, params, grads, momentums, masters);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def(
      "muon_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] momentums, Tensor(c!)[] masters, *,"
      " float lr, float momentum, bool nesterov, float weight_decay, int newton_schulz_steps,"
      " bool match_adamw_rms, float grad_scale) -> ()");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("muon_", flat_settings<&reference::muon_>());
}

// The fake kernel only checks.
TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("muon_", flat_settings<&check_muon>());
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("muon_", flat_settings<&below_autograd>());
}

}  // namespace mindspeed::ops
