// SPDX-License-Identifier: Apache-2.0
// Tensors to the kernels of moe_permute, rows over threads.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/moe_permute/kernel.h"
#include "ops/moe_permute/moe_permute.h"
#include "ops/moe_unpermute/moe_unpermute.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

at::Tensor forward_cpu(const at::Tensor& rows, const at::Tensor& slots, const at::Tensor& weights) {
  if (rows.scalar_type() == at::kDouble) return reference::moe_unpermute(rows, slots, weights);
  check_moe_unpermute(rows, slots, weights);
  at::Tensor y = at::empty({weights.size(0), rows.size(1)}, rows.options());
  const at::Tensor dense = as_rows(rows);
  const at::Tensor places = inverse_of_slots("moe_unpermute", slots);
  const at::Tensor factors = weights.to(at::kFloat).contiguous();
  MoeCombine args{};
  args.type = element_type(rows);
  args.rows = dense.const_data_ptr();
  args.rows_stride = dense.stride(0);
  args.places = places.const_data_ptr<int64_t>();
  args.top_k = weights.size(1);
  args.size = rows.size(1);
  args.weights = factors.const_data_ptr<float>();
  args.x = y.mutable_data_ptr();
  for_rows(y.size(0), args.size * args.top_k, [&](int64_t begin, int64_t end) {
    moe_combine_rows(args, begin, end);
  });
  return y;
}

std::tuple<at::Tensor, at::Tensor> backward_cpu(
    const at::Tensor& grad,
    const at::Tensor& rows,
    const at::Tensor& slots,
    const at::Tensor& weights) {
  if (rows.scalar_type() == at::kDouble) {
    return reference::moe_unpermute_backward(grad, rows, slots, weights);
  }
  at::Tensor grad_rows = at::empty(rows.sizes(), rows.options());
  at::Tensor grad_weights = at::empty(weights.sizes(), weights.options().dtype(at::kFloat));
  const at::Tensor grad_tokens = as_rows(grad);
  const at::Tensor dense = as_rows(rows);
  const at::Tensor order = slots.contiguous();
  const at::Tensor factors = weights.to(at::kFloat).contiguous();
  MoeSpread args{};
  args.type = element_type(rows);
  args.x = grad_tokens.const_data_ptr();
  args.x_stride = grad_tokens.stride(0);
  args.slots = order.const_data_ptr<int64_t>();
  args.top_k = weights.size(1);
  args.size = rows.size(1);
  args.weights = factors.const_data_ptr<float>();
  args.rows = grad_rows.mutable_data_ptr();
  args.others = dense.const_data_ptr();
  args.others_stride = dense.stride(0);
  args.dots = grad_weights.mutable_data_ptr<float>();
  for_rows(slots.size(0), args.size, [&](int64_t begin, int64_t end) {
    moe_spread_rows(args, begin, end);
  });
  return {grad_rows, grad_weights.to(weights.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("moe_unpermute", forward_cpu);
  m.impl("moe_unpermute_backward", backward_cpu);
}

}  // namespace mindspeed::ops
