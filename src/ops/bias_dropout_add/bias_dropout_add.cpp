// SPDX-License-Identifier: Apache-2.0
#include "ops/bias_dropout_add/bias_dropout_add.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {

using MaybeTensor = std::optional<at::Tensor>;

uint32_t dropout_threshold(double p) {
  return static_cast<uint32_t>(p * 4294967296.0);
}

void check_bias_dropout_add(
    const at::Tensor& x, const MaybeTensor& bias, const at::Tensor& residual, double p) {
  check_float("bias_dropout_add", "x", x);
  TORCH_CHECK_VALUE(x.dim() >= 1, "bias_dropout_add: x must have at least one dim, got a scalar");
  check_same("bias_dropout_add", "x", x, "residual", residual);
  if (bias) check_row_weight("bias_dropout_add", x, "bias", *bias);
  TORCH_CHECK_VALUE(p >= 0 && p < 1, "bias_dropout_add: p must lie in [0, 1), got ", p);
}

namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;

constexpr int64_t kLow32 = 0xffffffff;

// simd/dropout-inl.h's hash, in int64 because torch computes with few unsigned types.
at::Tensor mix(at::Tensor x) {
  x = x.bitwise_xor(x.__rshift__(16));
  x = (x * 0x7feb352d).bitwise_and(kLow32);
  x = x.bitwise_xor(x.__rshift__(15));
  x = (x * 0x846ca68b).bitwise_and(kLow32);
  return x.bitwise_xor(x.__rshift__(16));
}

at::Tensor mix(int64_t value, const at::TensorOptions& options) {
  return mix(at::arange(value & kLow32, (value & kLow32) + 1, options));
}

// [..., N] like x: 0 where dropped, 1 / (1 - p) elsewhere.
at::Tensor dropout_factors(const at::Tensor& x, double p, int64_t seed) {
  const auto integers = x.options().dtype(at::kLong);
  const int64_t size = x.size(-1);
  const int64_t num_rows = size == 0 ? 0 : x.numel() / size;
  const at::Tensor by_seed =
      mix(mix(static_cast<int64_t>(static_cast<uint64_t>(seed) >> 32), integers)
              .bitwise_xor(at::arange(seed & kLow32, (seed & kLow32) + 1, integers)));
  const at::Tensor row = at::arange(num_rows, integers).unsqueeze(1);
  const at::Tensor row_key = mix(by_seed.bitwise_xor(
      mix((row.__rshift__(32) * 0x9E3779B9 + mix(row.bitwise_and(kLow32))).bitwise_and(kLow32))));
  const at::Tensor column = at::arange(size, integers);
  const at::Tensor hash =
      mix((column * 0x9E3779B1).bitwise_and(kLow32).bitwise_xor(row_key)).view(x.sizes());
  const at::Tensor kept = hash.ge(static_cast<int64_t>(dropout_threshold(p)));
  return kept.to(arithmetic_type(x)) / (1.0 - p);
}

at::Tensor forward_fake(
    const at::Tensor& x,
    const MaybeTensor& bias,
    const at::Tensor& residual,
    double p,
    int64_t /*seed*/) {
  check_bias_dropout_add(x, bias, residual, p);
  return at::empty_symint(x.sym_sizes(), x.options());
}

Pair backward_fake(
    const at::Tensor& grad, const MaybeTensor& bias, double /*p*/, int64_t /*seed*/) {
  return {
      at::empty_symint(grad.sym_sizes(), grad.options()),
      bias ? at::empty_symint(bias->sym_sizes(), bias->options()) : at::empty({0}, grad.options())};
}

class BiasDropoutAdd : public torch::autograd::Function<BiasDropoutAdd> {
 public:
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& x,
      const MaybeTensor& bias,
      const at::Tensor& residual,
      double p,
      int64_t seed) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({bias.value_or(at::Tensor())});
    context->saved_data["p"] = p;
    context->saved_data["seed"] = seed;
    return bias_dropout_add(x, bias, residual, p, seed);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const at::Tensor saved_bias = context->get_saved_variables()[0];
    const auto bias = saved_bias.defined() ? MaybeTensor(saved_bias) : std::nullopt;
    auto [grad_x, grad_bias] = bias_dropout_add_backward(
        grads[0], bias, context->saved_data["p"].toDouble(), context->saved_data["seed"].toInt());
    return {grad_x, bias ? grad_bias : at::Tensor(), grads[0], at::Tensor(), at::Tensor()};
  }
};

at::Tensor with_autograd(
    const at::Tensor& x,
    const MaybeTensor& bias,
    const at::Tensor& residual,
    double p,
    int64_t seed) {
  return BiasDropoutAdd::apply(x, bias, residual, p, seed);
}

}  // namespace

namespace reference {

at::Tensor bias_dropout_add(
    const at::Tensor& x,
    const MaybeTensor& bias,
    const at::Tensor& residual,
    double p,
    int64_t seed) {
  check_bias_dropout_add(x, bias, residual, p);
  const at::ScalarType type = arithmetic_type(x);
  at::Tensor value = x.to(type);
  if (bias) value = value + bias->to(type);
  if (p > 0) value = value * dropout_factors(x, p, seed);
  return (residual.to(type) + value).to(x.scalar_type()).contiguous();
}

Pair bias_dropout_add_backward(
    const at::Tensor& grad, const MaybeTensor& bias, double p, int64_t seed) {
  at::Tensor wide = grad.to(arithmetic_type(grad));
  if (p > 0) wide = wide * dropout_factors(grad, p, seed);
  at::Tensor grad_bias = bias ? wide.reshape({-1, wide.size(-1)}).sum(0).to(bias->scalar_type())
                              : at::empty({0}, grad.options());
  // never grad itself: an operator's result must not share memory with its inputs
  return {
      wide.to(grad.scalar_type(), /*non_blocking=*/false, /*copy=*/true).contiguous(), grad_bias};
}

}  // namespace reference

at::Tensor bias_dropout_add(
    const at::Tensor& x,
    const MaybeTensor& bias,
    const at::Tensor& residual,
    double p,
    int64_t seed) {
  static const auto op = operator_handle<decltype(bias_dropout_add)>("mindspeed::bias_dropout_add");
  return op.call(x, bias, residual, p, seed);
}

Pair bias_dropout_add_backward(
    const at::Tensor& grad, const MaybeTensor& bias, double p, int64_t seed) {
  static const auto op =
      operator_handle<decltype(bias_dropout_add_backward)>("mindspeed::bias_dropout_add_backward");
  return op.call(grad, bias, p, seed);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def("bias_dropout_add(Tensor x, Tensor? bias, Tensor residual, float p, int seed) -> Tensor");
  m.def(
      "bias_dropout_add_backward(Tensor grad, Tensor? bias, float p, int seed)"
      " -> (Tensor grad_x, Tensor grad_bias)");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("bias_dropout_add", reference::bias_dropout_add);
  m.impl("bias_dropout_add_backward", reference::bias_dropout_add_backward);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("bias_dropout_add", forward_fake);
  m.impl("bias_dropout_add_backward", backward_fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("bias_dropout_add", with_autograd);
  m.impl("bias_dropout_add_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
