// SPDX-License-Identifier: Apache-2.0
#include "ops/gated/gated.h"

#include <ATen/ops/empty.h>

#include "ops/rows.h"

namespace mindspeed::ops {

void check_gated(const char* op, const at::Tensor& gate, const at::Tensor& up) {
  check_float(op, "gate", gate);
  TORCH_CHECK_VALUE(gate.dim() >= 1, op, ": gate must have at least one dim, got a scalar");
  check_same(op, "gate", gate, "up", up);
}

at::Tensor gated_forward_cpu(
    const at::Tensor& gate, const at::Tensor& up, GatedForwardKernel kernel) {
  at::Tensor out = at::empty(gate.sizes(), gate.options());
  const at::Tensor gate_rows = as_rows(gate);
  const at::Tensor up_rows = as_rows(up);
  GatedForward args{};
  args.type = element_type(gate);
  args.gate = gate_rows.const_data_ptr();
  args.gate_stride = gate_rows.stride(0);
  args.up = up_rows.const_data_ptr();
  args.up_stride = up_rows.stride(0);
  args.out = out.mutable_data_ptr();
  args.size = gate_rows.size(1);
  for_rows(
      gate_rows.size(0), args.size, [&](int64_t begin, int64_t end) { kernel(args, begin, end); });
  return out;
}

std::tuple<at::Tensor, at::Tensor> gated_backward_cpu(
    const at::Tensor& grad,
    const at::Tensor& gate,
    const at::Tensor& up,
    GatedBackwardKernel kernel) {
  at::Tensor grad_gate = at::empty(gate.sizes(), gate.options());
  at::Tensor grad_up = at::empty(gate.sizes(), gate.options());
  const at::Tensor grad_rows = as_rows(grad);
  const at::Tensor gate_rows = as_rows(gate);
  const at::Tensor up_rows = as_rows(up);
  GatedBackward args{};
  args.type = element_type(gate);
  args.grad = grad_rows.const_data_ptr();
  args.grad_stride = grad_rows.stride(0);
  args.gate = gate_rows.const_data_ptr();
  args.gate_stride = gate_rows.stride(0);
  args.up = up_rows.const_data_ptr();
  args.up_stride = up_rows.stride(0);
  args.grad_gate = grad_gate.mutable_data_ptr();
  args.grad_up = grad_up.mutable_data_ptr();
  args.size = gate_rows.size(1);
  for_rows(
      gate_rows.size(0), args.size, [&](int64_t begin, int64_t end) { kernel(args, begin, end); });
  return {grad_gate, grad_up};
}

std::tuple<at::Tensor, at::Tensor> gated_backward_fake(
    const at::Tensor& /*grad*/, const at::Tensor& gate, const at::Tensor& up) {
  return {
      at::empty_symint(gate.sym_sizes(), gate.options()),
      at::empty_symint(up.sym_sizes(), up.options())};
}

}  // namespace mindspeed::ops
