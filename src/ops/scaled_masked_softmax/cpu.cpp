// SPDX-License-Identifier: Apache-2.0
// Tensors to the kernel's struct, rows over threads.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/rows.h"
#include "ops/scaled_masked_softmax/kernel.h"
#include "ops/scaled_masked_softmax/scaled_masked_softmax.h"

namespace mindspeed::ops {
namespace {

// A mask's rows of L bytes, and which of them belongs to each row of x.
struct MaskRows {
  at::Tensor bytes;
  at::Tensor row;
};

MaskRows mask_rows(const at::Tensor& mask, const at::Tensor& x) {
  const at::Tensor full = mask.dim() > 0 ? mask : mask.unsqueeze(0);
  std::vector<int64_t> own(full.sizes().begin(), full.sizes().end());
  own.back() = x.size(-1);
  const at::Tensor bytes = full.expand(own).contiguous();
  own.pop_back();
  const auto leading = x.sizes().slice(0, x.dim() - 1);
  const int64_t num_rows = bytes.numel() / x.size(-1);
  return {bytes, at::arange(num_rows, at::kLong).view(own).expand(leading).contiguous()};
}

at::Tensor forward_cpu(
    const at::Tensor& x, const std::optional<at::Tensor>& mask, double scale, bool causal) {
  if (x.scalar_type() == at::kDouble) {
    return reference::scaled_masked_softmax(x, mask, scale, causal);
  }
  check_scaled_masked_softmax(x, mask);
  at::Tensor y = at::empty(x.sizes(), x.options());
  if (x.numel() == 0) return y;
  const at::Tensor rows = as_rows(x);
  const MaskRows hidden = mask ? mask_rows(*mask, x) : MaskRows{};
  ScaledMaskedSoftmaxForward args{};
  args.type = element_type(x);
  args.x = rows.const_data_ptr();
  args.x_stride = rows.stride(0);
  if (mask) {
    args.mask = static_cast<const uint8_t*>(hidden.bytes.const_data_ptr());
    args.mask_row = hidden.row.const_data_ptr<int64_t>();
  }
  args.scale = static_cast<float>(scale);
  args.causal = causal;
  args.num_queries = x.size(-2);
  args.num_keys = x.size(-1);
  args.y = y.mutable_data_ptr();
  for_rows(rows.size(0), args.num_keys, [&](int64_t begin, int64_t end) {
    scaled_masked_softmax_forward_rows(args, begin, end);
  });
  return y;
}

at::Tensor backward_cpu(const at::Tensor& grad, const at::Tensor& y, double scale, bool causal) {
  if (y.scalar_type() == at::kDouble) {
    return reference::scaled_masked_softmax_backward(grad, y, scale, causal);
  }
  at::Tensor grad_x = at::empty(y.sizes(), y.options());
  if (y.numel() == 0) return grad_x;
  const at::Tensor grad_rows = as_rows(grad);
  const at::Tensor y_rows = as_rows(y);
  ScaledMaskedSoftmaxBackward args{};
  args.type = element_type(y);
  args.grad = grad_rows.const_data_ptr();
  args.grad_stride = grad_rows.stride(0);
  args.y = y_rows.const_data_ptr();
  args.y_stride = y_rows.stride(0);
  args.scale = static_cast<float>(scale);
  args.causal = causal;
  args.num_queries = y.size(-2);
  args.num_keys = y.size(-1);
  args.grad_x = grad_x.mutable_data_ptr();
  for_rows(y_rows.size(0), args.num_keys, [&](int64_t begin, int64_t end) {
    scaled_masked_softmax_backward_rows(args, begin, end);
  });
  return grad_x;
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("scaled_masked_softmax", forward_cpu);
  m.impl("scaled_masked_softmax_backward", backward_cpu);
}

}  // namespace mindspeed::ops
