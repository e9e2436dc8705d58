// SPDX-License-Identifier: Apache-2.0
// All parameters cut into runs of elements, runs over threads.
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/adamw/adamw.h"
#include "ops/adamw/kernel.h"

namespace mindspeed::ops {
namespace {

constexpr int64_t kRunSize = 16384;  // elements: four arrays of 64 KiB

void adamw_cpu(
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
  if (!params.empty() && params[0].scalar_type() == at::kDouble) {
    reference::adamw_(
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
    return;
  }
  check_adamw(params, grads, exp_avgs, exp_avg_sqs, step);
  AdamWFactors factors{};
  factors.grad_scale = static_cast<float>(grad_scale);
  factors.keep = static_cast<float>(1 - lr * weight_decay);
  factors.beta2 = static_cast<float>(beta2);
  factors.one_minus_beta1 = static_cast<float>(1 - beta1);
  factors.one_minus_beta2 = static_cast<float>(1 - beta2);
  factors.bias_correction2_root = static_cast<float>(std::sqrt(1 - std::pow(beta2, step)));
  factors.eps = static_cast<float>(eps);
  factors.minus_step_size = static_cast<float>(-lr / (1 - std::pow(beta1, step)));

  std::vector<at::Tensor> dense_grads;  // keeps the copies of strided gradients alive
  std::vector<AdamWRun> runs;
  for (size_t i = 0; i < params.size(); ++i) {
    const at::Tensor& grad = dense_grads.emplace_back(grads[i].contiguous());
    float* param = params[i].mutable_data_ptr<float>();
    float* exp_avg = exp_avgs[i].mutable_data_ptr<float>();
    float* exp_avg_sq = exp_avg_sqs[i].mutable_data_ptr<float>();
    const int64_t size = grad.numel();
    for (int64_t at = 0; at < size; at += kRunSize) {
      runs.push_back(
          {param + at,
           grad.const_data_ptr<float>() + at,
           exp_avg + at,
           exp_avg_sq + at,
           std::min(kRunSize, size - at)});
    }
  }
  at::parallel_for(0, static_cast<int64_t>(runs.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run) adamw_run(runs[run], factors);
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("adamw_", adamw_cpu);
}

}  // namespace mindspeed::ops
