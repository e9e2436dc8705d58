// SPDX-License-Identifier: Apache-2.0
// All parameters cut into runs of elements, runs over threads.
#include <torch/library.h>

#include <vector>

#include "ops/lion/kernel.h"
#include "ops/lion/lion.h"
#include "ops/optimizer/parameter_lists.h"
#include "ops/rows.h"
#include "ops/settings.h"

namespace mindspeed::ops {
namespace {

constexpr int64_t kRunSize = 16384;  // elements: three arrays of 64 KiB

void lion_cpu(
    const LionSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList masters) {
  if (moment_type(params) == at::kDouble) {
    return reference::lion_(settings, params, grads, exp_avgs, masters);
  }
  check_lion(settings, params, grads, exp_avgs, masters);
  const LionFactors factors{
      .grad_scale = static_cast<float>(settings.grad_scale),
      .keep = static_cast<float>(1 - settings.lr * settings.weight_decay),
      .lr = static_cast<float>(settings.lr),
      .beta1 = static_cast<float>(settings.beta1),
      .one_minus_beta1 = static_cast<float>(1 - settings.beta1),
      .beta2 = static_cast<float>(settings.beta2),
      .one_minus_beta2 = static_cast<float>(1 - settings.beta2)};
  const ParameterLists lists{params, grads, masters};
  const std::vector<at::Tensor> dense_grads = contiguous_gradients(grads);
  const auto runs = cut_into_runs(params, kRunSize, [&](size_t i, int64_t begin, int64_t size) {
    return LionRun{
        element_type(params[i]),
        elements(params[i], begin),
        elements(dense_grads[i], begin),
        float_elements(lists.weight(i), begin),
        float_elements(exp_avgs[i], begin),
        size};
  });
  update_runs(runs, [&](const LionRun& run) { lion_run(run, factors); });
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("lion_", flat_settings<&lion_cpu>());
}

}  // namespace mindspeed::ops
