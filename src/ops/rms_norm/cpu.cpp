// SPDX-License-Identifier: Apache-2.0
// Tensors to the kernel's struct, rows over threads.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/rms_norm/kernel.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

std::tuple<at::Tensor, at::Tensor> forward_cpu(
    const at::Tensor& x, const at::Tensor& weight, double eps) {
  if (x.scalar_type() == at::kDouble) return reference::rms_norm_forward(x, weight, eps);
  check_rms_norm(x, weight);
  at::Tensor out = at::empty(x.sizes(), x.options());
  at::Tensor rstd = at::empty(x.sizes().slice(0, x.dim() - 1), x.options().dtype(at::kFloat));
  const at::Tensor rows = as_rows(x);
  const at::Tensor weight_fp32 = weight.to(at::kFloat).contiguous();
  RmsNormForward args{};
  args.type = element_type(x);
  args.x = rows.const_data_ptr();
  args.x_stride = rows.stride(0);
  args.weight = weight_fp32.const_data_ptr<float>();
  args.out = out.mutable_data_ptr();
  args.rstd = rstd.mutable_data_ptr<float>();
  args.size = rows.size(1);
  args.eps = static_cast<float>(eps);
  for_rows(rows.size(0), args.size, [&](int64_t begin, int64_t end) {
    rms_norm_forward_rows(args, begin, end);
  });
  return {out, rstd};
}

std::tuple<at::Tensor, at::Tensor> backward_cpu(
    const at::Tensor& grad,
    const std::optional<at::Tensor>& grad_sum,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& rstd) {
  if (x.scalar_type() == at::kDouble) {
    return reference::rms_norm_backward(grad, grad_sum, x, weight, rstd);
  }
  at::Tensor grad_x = at::empty(x.sizes(), x.options());
  const at::Tensor rows = as_rows(x);
  const at::Tensor grad_rows = as_rows(grad);
  const at::Tensor grad_sum_rows = grad_sum ? as_rows(*grad_sum) : at::Tensor();
  const at::Tensor weight_fp32 = weight.to(at::kFloat).contiguous();
  const at::Tensor rstd_rows = rstd.contiguous();
  RmsNormBackward args{};
  args.type = element_type(x);
  args.grad = grad_rows.const_data_ptr();
  args.grad_stride = grad_rows.stride(0);
  if (grad_sum) {
    args.grad_sum = grad_sum_rows.const_data_ptr();
    args.grad_sum_stride = grad_sum_rows.stride(0);
  }
  args.x = rows.const_data_ptr();
  args.x_stride = rows.stride(0);
  args.weight = weight_fp32.const_data_ptr<float>();
  args.rstd = rstd_rows.const_data_ptr<float>();
  args.grad_x = grad_x.mutable_data_ptr();
  args.size = rows.size(1);
  const at::Tensor grad_weight =
      sum_over_rows(rows.size(0), args.size, [&](int64_t begin, int64_t end, float* share) {
        rms_norm_backward_rows(args, begin, end, share);
      });
  return {grad_x, grad_weight.to(weight.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("rms_norm_forward", forward_cpu);
  m.impl("rms_norm_backward", backward_cpu);
}

}  // namespace mindspeed::ops
