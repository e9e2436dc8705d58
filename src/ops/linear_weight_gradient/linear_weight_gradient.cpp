// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_weight_gradient/linear_weight_gradient.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {

void check_accumulator(const char* op, const at::Tensor& grad_weight, const at::Tensor& operand) {
  TORCH_CHECK_VALUE(
      grad_weight.scalar_type() == operand.scalar_type() ||
          grad_weight.scalar_type() == arithmetic_type(operand),
      op,
      ": grad_weight must be ",
      arithmetic_type(operand),
      " or have the dtype of its operands (",
      operand.scalar_type(),
      "), got ",
      grad_weight.scalar_type());
  TORCH_CHECK_VALUE(
      grad_weight.device() == operand.device(),
      op,
      ": grad_weight must be on the device of its operands (",
      operand.device(),
      "), got ",
      grad_weight.device());
}

void add_transposed_product(
    const at::Tensor& total, const at::Tensor& left, const at::Tensor& right) {
  const at::ScalarType type = total.scalar_type();
  total.addmm_(left.to(type).t(), right.to(type));
}

namespace {

constexpr const char* kName = "linear_weight_gradient_";

void check(const at::Tensor& grad_weight, const at::Tensor& grad_out, const at::Tensor& input) {
  check_float(kName, "grad_out", grad_out);
  TORCH_CHECK_VALUE(
      grad_out.dim() >= 1 && grad_out.dim() == input.dim() &&
          grad_out.sym_sizes()
              .slice(0, grad_out.dim() - 1)
              .equals(input.sym_sizes().slice(0, input.dim() - 1)),
      kName,
      ": grad_out [..., O] and input [..., I] must agree in all dims but the last, got ",
      grad_out.sym_sizes(),
      " and ",
      input.sym_sizes());
  TORCH_CHECK_VALUE(
      grad_weight.dim() == 2 && grad_weight.sym_size(0) == grad_out.sym_size(-1) &&
          grad_weight.sym_size(1) == input.sym_size(-1),
      kName,
      ": grad_weight must have shape [",
      grad_out.sym_size(-1),
      ", ",
      input.sym_size(-1),
      "], the last dims of grad_out and input, got ",
      grad_weight.sym_sizes());
  TORCH_CHECK_VALUE(
      input.scalar_type() == grad_out.scalar_type() && input.device() == grad_out.device(),
      kName,
      ": input must have the dtype and device of grad_out (",
      grad_out.scalar_type(),
      " on ",
      grad_out.device(),
      "), got ",
      input.scalar_type(),
      " on ",
      input.device());
  check_accumulator(kName, grad_weight, grad_out);
}

// The GEMM is torch's on every device.
void accumulate(
    const at::Tensor& grad_weight, const at::Tensor& grad_out, const at::Tensor& input) {
  check(grad_weight, grad_out, input);
  add_transposed_product(
      grad_weight, grad_out.reshape({-1, grad_out.size(-1)}), input.reshape({-1, input.size(-1)}));
}

}  // namespace

void linear_weight_gradient_(
    const at::Tensor& grad_weight, const at::Tensor& grad_out, const at::Tensor& input) {
  static const auto op =
      operator_handle<decltype(linear_weight_gradient_)>("mindspeed::linear_weight_gradient_");
  op.call(grad_weight, grad_out, input);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def("linear_weight_gradient_(Tensor(a!) grad_weight, Tensor grad_out, Tensor input) -> ()");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("linear_weight_gradient_", accumulate);
}

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("linear_weight_gradient_", accumulate);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("linear_weight_gradient_", check);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("linear_weight_gradient_", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
