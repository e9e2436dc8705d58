// SPDX-License-Identifier: Apache-2.0
// Tensors to the kernel's struct, rows over threads.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/bias_dropout_add/bias_dropout_add.h"
#include "ops/bias_dropout_add/kernel.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

DropoutRule rule(double p, int64_t seed) {
  return {dropout_threshold(p), static_cast<float>(1.0 / (1.0 - p)), static_cast<uint64_t>(seed)};
}

at::Tensor forward_cpu(
    const at::Tensor& x,
    const std::optional<at::Tensor>& bias,
    const at::Tensor& residual,
    double p,
    int64_t seed) {
  if (x.scalar_type() == at::kDouble) {
    return reference::bias_dropout_add(x, bias, residual, p, seed);
  }
  check_bias_dropout_add(x, bias, residual, p);
  at::Tensor out = at::empty(x.sizes(), x.options());
  const at::Tensor rows = as_rows(x);
  const at::Tensor residual_rows = as_rows(residual);
  const at::Tensor bias_fp32 = bias ? bias->to(at::kFloat).contiguous() : at::Tensor();
  BiasDropoutAddForward args{};
  args.type = element_type(x);
  args.x = rows.const_data_ptr();
  args.x_stride = rows.stride(0);
  args.bias = bias ? bias_fp32.const_data_ptr<float>() : nullptr;
  args.residual = residual_rows.const_data_ptr();
  args.residual_stride = residual_rows.stride(0);
  args.dropout = rule(p, seed);
  args.out = out.mutable_data_ptr();
  args.size = rows.size(1);
  for_rows(rows.size(0), args.size, [&](int64_t begin, int64_t end) {
    bias_dropout_add_forward_rows(args, begin, end);
  });
  return out;
}

std::tuple<at::Tensor, at::Tensor> backward_cpu(
    const at::Tensor& grad, const std::optional<at::Tensor>& bias, double p, int64_t seed) {
  if (grad.scalar_type() == at::kDouble) {
    return reference::bias_dropout_add_backward(grad, bias, p, seed);
  }
  at::Tensor grad_x = at::empty(grad.sizes(), grad.options());
  const at::Tensor rows = as_rows(grad);
  BiasDropoutAddBackward args{};
  args.type = element_type(grad);
  args.grad = rows.const_data_ptr();
  args.grad_stride = rows.stride(0);
  args.dropout = rule(p, seed);
  args.grad_x = grad_x.mutable_data_ptr();
  args.size = rows.size(1);
  if (!bias) {
    for_rows(rows.size(0), args.size, [&](int64_t begin, int64_t end) {
      bias_dropout_add_backward_rows(args, begin, end, nullptr);
    });
    return {grad_x, at::empty({0}, grad.options())};
  }
  const at::Tensor grad_bias =
      sum_over_rows(rows.size(0), args.size, [&](int64_t begin, int64_t end, float* share) {
        bias_dropout_add_backward_rows(args, begin, end, share);
      });
  return {grad_x, grad_bias.to(bias->scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("bias_dropout_add", forward_cpu);
  m.impl("bias_dropout_add_backward", backward_cpu);
}

}  // namespace mindspeed::ops
