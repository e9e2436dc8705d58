// SPDX-License-Identifier: Apache-2.0
#include "ops/lion/lion.h"

#include <torch/library.h>

#include "ops/optimizer/parameter_lists.h"
#include "ops/optimizer/ranges.h"
#include "ops/settings.h"

namespace mindspeed::ops {

void check_lion(
    const LionSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList masters) {
  check_at_least_zero("lion_", "lr", settings.lr);
  check_decay("lion_", "beta1", settings.beta1);
  check_decay("lion_", "beta2", settings.beta2);
  check_at_least_zero("lion_", "weight_decay", settings.weight_decay);
  check_parameters("lion_", {params, grads, masters});
  check_states("lion_", "exp_avgs", params, exp_avgs, moment_type(params));
}

namespace {

// Like under no_grad: leaf parameters are updated, and what saved an older value notices.
void below_autograd(
    const LionSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList masters) {
  {
    at::AutoDispatchBelowADInplaceOrView below;
    lion_(params, grads, exp_avgs, masters, settings);
  }
  bump_versions({params, exp_avgs, masters});
}

}  // namespace

namespace reference {

void lion_(
    const LionSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList masters) {
  check_lion(settings, params, grads, exp_avgs, masters);
  const auto& [lr, beta1, beta2, weight_decay, grad_scale] = settings;
  const ParameterLists lists{params, grads, masters};
  for (size_t i = 0; i < params.size(); ++i) {
    const at::Tensor grad = grads[i].detach().to(exp_avgs[i].scalar_type()) * grad_scale;
    const at::Tensor weight = lists.weight(i).detach();
    const at::Tensor direction = (exp_avgs[i] * beta1 + grad * (1 - beta1)).sign();
    weight.mul_(1 - lr * weight_decay).sub_(direction, lr);
    exp_avgs[i].mul_(beta2).add_(grad, 1 - beta2);
    if (!masters.empty()) params[i].detach().copy_(weight);
  }
}

}  // namespace reference

void lion_(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList masters,
    const LionSettings& settings) {
  static const auto op = operator_with_settings<&check_lion>("mindspeed::lion_");
  call_with_settings(op, settings, params, grads, exp_avgs, masters);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def(
      "lion_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] masters, *,"
      " float lr, float beta1, float beta2, float weight_decay, float grad_scale) -> ()");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("lion_", flat_settings<&reference::lion_>());
}

// The fake kernel only checks.
TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("lion_", flat_settings<&check_lion>());
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("lion_", flat_settings<&below_autograd>());
}

}  // namespace mindspeed::ops
