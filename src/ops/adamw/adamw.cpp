// SPDX-License-Identifier: Apache-2.0
#include "ops/adamw/adamw.h"

#include <torch/library.h>

#include <cmath>

#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

void check_list(const char* name, at::TensorList params, at::TensorList others, bool dense) {
  TORCH_CHECK_VALUE(
      params.size() == others.size(),
      "adamw_: ",
      name,
      " must have one tensor a parameter (",
      params.size(),
      "), got ",
      others.size());
  for (size_t i = 0; i < params.size(); ++i) {
    check_same("adamw_", "params", params[i], name, others[i]);
    TORCH_CHECK_VALUE(
        !dense || others[i].is_contiguous(),
        "adamw_: ",
        name,
        " must be contiguous, got strides ",
        others[i].sym_strides(),
        " at index ",
        i);
  }
}

}  // namespace

void check_adamw(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    int64_t step) {
  TORCH_CHECK_VALUE(step >= 1, "adamw_: step must be at least 1, got ", step);
  for (const at::Tensor& param : params) {
    TORCH_CHECK_VALUE(
        param.scalar_type() == params[0].scalar_type() &&
            (param.scalar_type() == at::kFloat || param.scalar_type() == at::kDouble),
        "adamw_: params must all be float32, or all float64, got ",
        param.scalar_type());
  }
  check_list("params", params, params, /*dense=*/true);
  check_list("grads", params, grads, /*dense=*/false);
  check_list("exp_avgs", params, exp_avgs, /*dense=*/true);
  check_list("exp_avg_sqs", params, exp_avg_sqs, /*dense=*/true);
}

namespace {

void fake(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    double /*lr*/,
    double /*beta1*/,
    double /*beta2*/,
    double /*eps*/,
    double /*weight_decay*/,
    int64_t step,
    double /*grad_scale*/) {
  check_adamw(params, grads, exp_avgs, exp_avg_sqs, step);
}

// Like under no_grad: leaf parameters are updated, and what saved an older value notices.
void below_autograd(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    double lr,
    double beta1,
    double beta2,
    double eps,
    double weight_decay,
    int64_t step,
    double grad_scale) {
  {
    at::AutoDispatchBelowADInplaceOrView below;
    adamw_(
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        lr,
        beta1,
        beta2,
        eps,
        weight_decay,
        step,
        grad_scale);
  }
  for (const at::TensorList list : {params, exp_avgs, exp_avg_sqs}) {
    for (const at::Tensor& tensor : list) tensor.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace

namespace reference {

void adamw_(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    double lr,
    double beta1,
    double beta2,
    double eps,
    double weight_decay,
    int64_t step,
    double grad_scale) {
  check_adamw(params, grads, exp_avgs, exp_avg_sqs, step);
  const double step_size = lr / (1 - std::pow(beta1, step));
  const double root = std::sqrt(1 - std::pow(beta2, step));
  for (size_t i = 0; i < params.size(); ++i) {
    const at::Tensor grad = grads[i].detach() * grad_scale;
    const at::Tensor param = params[i].detach();
    param.mul_(1 - lr * weight_decay);
    exp_avgs[i].lerp_(grad, 1 - beta1);
    exp_avg_sqs[i].mul_(beta2).addcmul_(grad, grad, 1 - beta2);
    param.addcdiv_(exp_avgs[i], exp_avg_sqs[i].sqrt().div_(root).add_(eps), -step_size);
  }
}

}  // namespace reference

void adamw_(
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    double lr,
    double beta1,
    double beta2,
    double eps,
    double weight_decay,
    int64_t step,
    double grad_scale) {
  static const auto op = operator_handle<decltype(adamw_)>("mindspeed::adamw_");
  op.call(
      params, grads, exp_avgs, exp_avg_sqs, lr, beta1, beta2, eps, weight_decay, step, grad_scale);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def(
      "adamw_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs,"
      " Tensor(c!)[] exp_avg_sqs, *, float lr, float beta1, float beta2, float eps,"
      " float weight_decay, int step, float grad_scale) -> ()");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("adamw_", reference::adamw_);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("adamw_", fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("adamw_", below_autograd);
}

}  // namespace mindspeed::ops
