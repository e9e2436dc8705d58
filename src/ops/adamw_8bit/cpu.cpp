// SPDX-License-Identifier: Apache-2.0
// All parameters cut into runs of whole blocks, runs over threads.
#include <torch/library.h>

#include <vector>

#include "ops/adamw_8bit/adamw_8bit.h"
#include "ops/adamw_8bit/dynamic_map.h"
#include "ops/adamw_8bit/kernel.h"
#include "ops/optimizer/parameter_lists.h"
#include "ops/rows.h"
#include "ops/settings.h"

namespace mindspeed::ops {
namespace {

constexpr int64_t kBlocksInRun = 64;

void adamw_8bit_cpu(
    const AdamWSettings& settings,
    at::TensorList params,
    at::TensorList grads,
    at::TensorList exp_avgs,
    at::TensorList exp_avg_scales,
    at::TensorList exp_avg_sqs,
    at::TensorList exp_avg_sq_scales,
    at::TensorList masters) {
  check_adamw_8bit(
      settings, params, grads, exp_avgs, exp_avg_scales, exp_avg_sqs, exp_avg_sq_scales, masters);
  const AdamWFactors factors(settings);
  const ParameterLists lists{params, grads, masters};
  const std::vector<at::Tensor> dense_grads = contiguous_gradients(grads);
  const auto make_run = [&](size_t i, int64_t begin, int64_t size) {
    const int64_t block = begin / kQuantisationBlock;
    return AdamW8bitRun{
        element_type(params[i]),
        elements(params[i], begin),
        elements(dense_grads[i], begin),
        float_elements(lists.weight(i), begin),
        static_cast<uint8_t*>(elements(exp_avgs[i], begin)),
        float_elements(exp_avg_scales[i], block),
        static_cast<uint8_t*>(elements(exp_avg_sqs[i], begin)),
        float_elements(exp_avg_sq_scales[i], block),
        size};
  };
  const auto runs = cut_into_runs(params, kBlocksInRun * kQuantisationBlock, make_run);
  update_runs(runs, [&](const AdamW8bitRun& run) { adamw_8bit_run(run, factors); });
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("adamw_8bit_", flat_settings<&adamw_8bit_cpu>());
}

}  // namespace mindspeed::ops
