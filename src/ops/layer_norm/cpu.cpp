// SPDX-License-Identifier: Apache-2.0
// Tensors to the kernel's struct, rows over threads.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/layer_norm/kernel.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

std::tuple<at::Tensor, at::Tensor, at::Tensor> forward_cpu(
    const at::Tensor& x,
    const at::Tensor& weight,
    const std::optional<at::Tensor>& bias,
    double eps) {
  if (x.scalar_type() == at::kDouble) return reference::layer_norm_forward(x, weight, bias, eps);
  check_layer_norm(x, weight, bias);
  const auto leading = x.sizes().slice(0, x.dim() - 1);
  at::Tensor out = at::empty(x.sizes(), x.options());
  at::Tensor mean = at::empty(leading, x.options().dtype(at::kFloat));
  at::Tensor rstd = at::empty(leading, x.options().dtype(at::kFloat));
  const at::Tensor rows = as_rows(x);
  const at::Tensor weight_fp32 = weight.to(at::kFloat).contiguous();
  const at::Tensor bias_fp32 = bias ? bias->to(at::kFloat).contiguous() : at::Tensor();
  LayerNormForward args{};
  args.type = element_type(x);
  args.x = rows.const_data_ptr();
  args.x_stride = rows.stride(0);
  args.weight = weight_fp32.const_data_ptr<float>();
  args.bias = bias ? bias_fp32.const_data_ptr<float>() : nullptr;
  args.out = out.mutable_data_ptr();
  args.mean = mean.mutable_data_ptr<float>();
  args.rstd = rstd.mutable_data_ptr<float>();
  args.size = rows.size(1);
  args.eps = static_cast<float>(eps);
  for_rows(rows.size(0), args.size, [&](int64_t begin, int64_t end) {
    layer_norm_forward_rows(args, begin, end);
  });
  return {out, mean, rstd};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward_cpu(
    const at::Tensor& grad,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& mean,
    const at::Tensor& rstd) {
  if (x.scalar_type() == at::kDouble) {
    return reference::layer_norm_backward(grad, x, weight, mean, rstd);
  }
  at::Tensor grad_x = at::empty(x.sizes(), x.options());
  const at::Tensor rows = as_rows(x);
  const at::Tensor grad_rows = as_rows(grad);
  const at::Tensor weight_fp32 = weight.to(at::kFloat).contiguous();
  const at::Tensor mean_rows = mean.contiguous();
  const at::Tensor rstd_rows = rstd.contiguous();
  LayerNormBackward args{};
  args.type = element_type(x);
  args.grad = grad_rows.const_data_ptr();
  args.grad_stride = grad_rows.stride(0);
  args.x = rows.const_data_ptr();
  args.x_stride = rows.stride(0);
  args.weight = weight_fp32.const_data_ptr<float>();
  args.mean = mean_rows.const_data_ptr<float>();
  args.rstd = rstd_rows.const_data_ptr<float>();
  args.grad_x = grad_x.mutable_data_ptr();
  args.size = rows.size(1);
  const at::Tensor grad_affine =
      sum_over_rows(rows.size(0), 2 * args.size, [&](int64_t begin, int64_t end, float* share) {
        layer_norm_backward_rows(args, begin, end, share);
      });
  const auto half = [&](int64_t start) {
    return grad_affine.slice(0, start, start + args.size)
        .to(weight.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  };
  return {grad_x, half(0), half(args.size)};
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("layer_norm_forward", forward_cpu);
  m.impl("layer_norm_backward", backward_cpu);
}

}  // namespace mindspeed::ops
