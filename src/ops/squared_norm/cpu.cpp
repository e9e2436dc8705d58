// SPDX-License-Identifier: Apache-2.0
// All tensors cut into runs of fixed length, runs over threads, sums added in order.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/rows.h"
#include "ops/squared_norm/kernel.h"
#include "ops/squared_norm/squared_norm.h"

namespace mindspeed::ops {
namespace {

constexpr int64_t kRunSize = 32768;  // elements

at::Tensor squared_norm_cpu(at::TensorList tensors) {
  const auto is_double = [](const at::Tensor& x) { return x.scalar_type() == at::kDouble; };
  if (std::any_of(tensors.begin(), tensors.end(), is_double)) {
    return reference::squared_norm(tensors);
  }
  check_squared_norm(tensors);
  std::vector<at::Tensor> dense;  // keeps the copies of strided tensors alive
  std::vector<SquaredNormRun> runs;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor& values = dense.emplace_back(tensor.contiguous());
    const auto* bytes = static_cast<const char*>(values.const_data_ptr());
    for (int64_t at = 0; at < values.numel(); at += kRunSize) {
      runs.push_back(
          {element_type(values),
           bytes + at * values.element_size(),
           std::min(kRunSize, values.numel() - at)});
    }
  }
  std::vector<double> sums(runs.size());
  at::parallel_for(0, static_cast<int64_t>(runs.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run) sums[run] = squared_norm_run(runs[run]);
  });
  at::Tensor total = at::empty({}, at::kDouble);
  *total.mutable_data_ptr<double>() = std::accumulate(sums.begin(), sums.end(), 0.0);
  return total;
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("squared_norm", squared_norm_cpu);
}

}  // namespace mindspeed::ops
