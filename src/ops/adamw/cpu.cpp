// SPDX-License-Identifier: Apache-2.0
// All parameters cut into runs of elements, runs over threads.
#include <torch/library.h>

#include <vector>

#include "ops/adamw/adamw.h"
#include "ops/adamw/kernel.h"
#include "ops/optimizer/parameter_lists.h"
#include "ops/rows.h"
#include "ops/settings.h"

namespace mindspeed::ops {
namespace {

constexpr int64_t kRunSize = 16384;  // elements: four arrays of 64 KiB

void adamw_cpu(
    const AdamWSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_sqs,
    at::TensorList masters) {
  if (moment_type(params) == at::kDouble) {
    return reference::adamw_(settings, params, grads, exp_avgs, exp_avg_sqs, masters);
  }
  check_adamw(settings, params, grads, exp_avgs, exp_avg_sqs, masters);
  const AdamWFactors factors(settings);
  const ParameterLists lists{params, grads, masters};
  const std::vector<at::Tensor> dense_grads = contiguous_gradients(grads);
  const auto runs = cut_into_runs(params, kRunSize, [&](size_t i, int64_t begin, int64_t size) {
    return AdamWRun{
        element_type(params[i]),
        elements(params[i], begin),
        elements(dense_grads[i], begin),
        float_elements(lists.weight(i), begin),
        float_elements(exp_avgs[i], begin),
        float_elements(exp_avg_sqs[i], begin),
        size};
  });
  update_runs(runs, [&](const AdamWRun& run) { adamw_run(run, factors); });
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("adamw_", flat_settings<&adamw_cpu>());
}

}  // namespace mindspeed::ops
