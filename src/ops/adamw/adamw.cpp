// SPDX-License-Identifier: Apache-2.0
#include "ops/adamw/adamw.h"

#include <torch/library.h>

#include <cmath>

#include "ops/optimizer/parameter_lists.h"
#include "ops/optimizer/ranges.h"
#include "ops/settings.h"

namespace mindspeed::ops {

void check_settings(const char* op, const AdamWSettings& settings) {
  check_at_least_zero(op, "lr", settings.lr);
  check_decay(op, "beta1", settings.beta1);
  check_decay(op, "beta2", settings.beta2);
  check_at_least_zero(op, "eps", settings.eps);
  check_at_least_zero(op, "weight_decay", settings.weight_decay);
  TORCH_CHECK_VALUE(settings.step >= 1, op, ": step must be at least 1, got ", settings.step);
}

void check_adamw(
    const AdamWSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    at::TensorList masters) {
  check_settings("adamw_", settings);
  check_parameters("adamw_", {params, grads, masters});
  check_states("adamw_", "exp_avgs", params, exp_avgs, moment_type(params));
  check_states("adamw_", "exp_avg_sqs", params, exp_avg_sqs, moment_type(params));
}

namespace {

// Like under no_grad: leaf parameters are updated, and what saved an older value notices.
void below_autograd(
    const AdamWSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    at::TensorList masters) {
  {
    at::AutoDispatchBelowADInplaceOrView below;
    adamw_(params, grads, exp_avgs, exp_avg_sqs, masters, settings);
  }
  bump_versions({params, exp_avgs, exp_avg_sqs, masters});
}

}  // namespace

namespace reference {

void adamw_(
    const AdamWSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    at::TensorList masters) {
  check_adamw(settings, params, grads, exp_avgs, exp_avg_sqs, masters);
  const auto& [lr, beta1, beta2, eps, weight_decay, step, grad_scale] = settings;
  const double step_size = lr / (1 - std::pow(beta1, step));
  const double root = std::sqrt(1 - std::pow(beta2, step));
  const ParameterLists lists{params, grads, masters};
  for (size_t i = 0; i < params.size(); ++i) {
    const at::Tensor grad = grads[i].detach().to(exp_avgs[i].scalar_type()) * grad_scale;
    const at::Tensor weight = lists.weight(i).detach();
    weight.mul_(1 - lr * weight_decay);
    exp_avgs[i].lerp_(grad, 1 - beta1);
    exp_avg_sqs[i].mul_(beta2).addcmul_(grad, grad, 1 - beta2);
    weight.addcdiv_(exp_avgs[i], exp_avg_sqs[i].sqrt().div_(root).add_(eps), -step_size);
    if (!masters.empty()) params[i].detach().copy_(weight);
  }
}

}  // namespace reference

void adamw_(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    at::TensorList masters,
    const AdamWSettings& settings) {
  static const auto op = operator_with_settings<&check_adamw>("mindspeed::adamw_");
  call_with_settings(op, settings, params, grads, exp_avgs, exp_avg_sqs, masters);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def(
      "adamw_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs,"
      " Tensor(c!)[] exp_avg_sqs, Tensor(d!)[] masters, *, float lr, float beta1, float beta2,"
      " float eps, float weight_decay, int step, float grad_scale) -> ()");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("adamw_", flat_settings<&reference::adamw_>());
}

// The fake kernel only checks.
TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("adamw_", flat_settings<&check_adamw>());
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("adamw_", flat_settings<&below_autograd>());
}

}  // namespace mindspeed::ops
