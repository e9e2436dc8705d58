// SPDX-License-Identifier: Apache-2.0
// Tensors to the kernel of rms_norm, which adds the residual on its way.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/add_rms_norm/add_rms_norm.h"
#include "ops/rms_norm/kernel.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

std::tuple<at::Tensor, at::Tensor, at::Tensor> forward_cpu(
    const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  if (x.scalar_type() == at::kDouble) {
    return reference::add_rms_norm_forward(x, residual, weight, eps);
  }
  check_add_rms_norm(x, residual, weight);
  at::Tensor out = at::empty(x.sizes(), x.options());
  at::Tensor sum = at::empty(x.sizes(), x.options());
  at::Tensor rstd = at::empty(x.sizes().slice(0, x.dim() - 1), x.options().dtype(at::kFloat));
  const at::Tensor rows = as_rows(x);
  const at::Tensor residual_rows = as_rows(residual);
  const at::Tensor weight_fp32 = weight.to(at::kFloat).contiguous();
  RmsNormForward args{};
  args.type = element_type(x);
  args.x = rows.const_data_ptr();
  args.x_stride = rows.stride(0);
  args.residual = residual_rows.const_data_ptr();
  args.residual_stride = residual_rows.stride(0);
  args.weight = weight_fp32.const_data_ptr<float>();
  args.sum = sum.mutable_data_ptr();
  args.out = out.mutable_data_ptr();
  args.rstd = rstd.mutable_data_ptr<float>();
  args.size = rows.size(1);
  args.eps = static_cast<float>(eps);
  for_rows(rows.size(0), args.size, [&](int64_t begin, int64_t end) {
    rms_norm_forward_rows(args, begin, end);
  });
  return {out, sum, rstd};
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("add_rms_norm_forward", forward_cpu);
}

}  // namespace mindspeed::ops
