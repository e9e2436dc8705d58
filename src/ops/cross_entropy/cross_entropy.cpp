// SPDX-License-Identifier: Apache-2.0
#include "ops/cross_entropy/cross_entropy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/softmax.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {

void check_cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  check_float("cross_entropy", "logits", logits);
  TORCH_CHECK_VALUE(
      logits.dim() == 2 && logits.sym_size(1) > 0,
      "cross_entropy: logits must have shape [T, V] with V at least 1, got ",
      logits.sym_sizes());
  TORCH_CHECK_VALUE(
      labels.scalar_type() == at::kLong,
      "cross_entropy: labels must be int64, got ",
      labels.scalar_type());
  TORCH_CHECK_VALUE(
      labels.dim() == 1 && labels.sym_size(0) == logits.sym_size(0),
      "cross_entropy: labels must have shape [",
      logits.sym_size(0),
      "], one a row of logits, got ",
      labels.sym_sizes());
  TORCH_CHECK_VALUE(
      labels.device() == logits.device(),
      "cross_entropy: labels must be on the device of logits (",
      logits.device(),
      "), got ",
      labels.device());
}

namespace {

std::tuple<at::Tensor, at::Tensor, at::Tensor> forward_fake(
    const at::Tensor& logits, const at::Tensor& labels, int64_t /*ignore_index*/) {
  check_cross_entropy(logits, labels);
  const auto options = logits.options().dtype(arithmetic_type(logits));
  const auto one_a_row = [&] { return at::empty_symint(labels.sym_sizes(), options); };
  return {one_a_row(), one_a_row(), one_a_row()};
}

at::Tensor backward_fake(
    const at::Tensor& /*grad*/,
    const at::Tensor& logits,
    const at::Tensor& /*labels*/,
    const at::Tensor& /*maximum*/,
    const at::Tensor& /*log_sum*/,
    int64_t /*ignore_index*/) {
  return at::empty_symint(logits.sym_sizes(), logits.options());
}

at::Tensor without_autograd(
    const at::Tensor& logits, const at::Tensor& labels, int64_t ignore_index) {
  return std::get<0>(cross_entropy_forward(logits, labels, ignore_index));
}

class CrossEntropy : public torch::autograd::Function<CrossEntropy> {
 public:
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& logits,
      const at::Tensor& labels,
      int64_t ignore_index) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [loss, maximum, log_sum] = cross_entropy_forward(logits, labels, ignore_index);
    context->save_for_backward({logits, labels, maximum, log_sum});
    context->saved_data["ignore_index"] = ignore_index;
    return loss;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const int64_t ignore_index = context->saved_data["ignore_index"].toInt();
    at::Tensor grad_logits =
        cross_entropy_backward(grads[0], saved[0], saved[1], saved[2], saved[3], ignore_index);
    return {grad_logits, at::Tensor(), at::Tensor()};
  }
};

at::Tensor with_autograd(const at::Tensor& logits, const at::Tensor& labels, int64_t ignore_index) {
  return CrossEntropy::apply(logits, labels, ignore_index);
}

}  // namespace

namespace reference {

std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy_forward(
    const at::Tensor& logits, const at::Tensor& labels, int64_t ignore_index) {
  check_cross_entropy(logits, labels);
  const at::Tensor wide = logits.to(arithmetic_type(logits));
  const at::Tensor ignored = labels.eq(ignore_index);
  const at::Tensor places = labels.masked_fill(ignored, 0).unsqueeze(1);
  const at::Tensor maximum = wide.amax(1);
  const at::Tensor log_sum = (wide - maximum.unsqueeze(1)).exp().sum(1).log();
  const at::Tensor loss = log_sum + (maximum - wide.gather(1, places).squeeze(1));
  return {
      loss.masked_fill(ignored, 0),
      maximum.masked_fill(ignored, 0),
      log_sum.masked_fill(ignored, 0)};
}

at::Tensor cross_entropy_backward(
    const at::Tensor& grad,
    const at::Tensor& logits,
    const at::Tensor& labels,
    const at::Tensor& /*maximum*/,
    const at::Tensor& /*log_sum*/,
    int64_t ignore_index) {
  const at::Tensor wide = logits.to(arithmetic_type(logits));
  const at::Tensor ignored = labels.eq(ignore_index);
  const at::Tensor places = labels.masked_fill(ignored, 0).unsqueeze(1);
  const at::Tensor slope = at::softmax(wide, 1);
  const at::Tensor minus_one = at::full_like(places, -1, wide.options());
  const at::Tensor scaled = slope.scatter_add(1, places, minus_one) * grad.unsqueeze(1);
  return scaled.masked_fill(ignored.unsqueeze(1), 0).to(logits.scalar_type()).contiguous();
}

}  // namespace reference

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels, int64_t ignore_index) {
  static const auto op = operator_handle<decltype(cross_entropy)>("mindspeed::cross_entropy");
  return op.call(logits, labels, ignore_index);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> cross_entropy_forward(
    const at::Tensor& logits, const at::Tensor& labels, int64_t ignore_index) {
  static const auto op =
      operator_handle<decltype(cross_entropy_forward)>("mindspeed::cross_entropy_forward");
  return op.call(logits, labels, ignore_index);
}

at::Tensor cross_entropy_backward(
    const at::Tensor& grad,
    const at::Tensor& logits,
    const at::Tensor& labels,
    const at::Tensor& maximum,
    const at::Tensor& log_sum,
    int64_t ignore_index) {
  static const auto op =
      operator_handle<decltype(cross_entropy_backward)>("mindspeed::cross_entropy_backward");
  return op.call(grad, logits, labels, maximum, log_sum, ignore_index);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def("cross_entropy(Tensor logits, Tensor labels, int ignore_index=-100) -> Tensor");
  m.def(
      "cross_entropy_forward(Tensor logits, Tensor labels, int ignore_index)"
      " -> (Tensor loss, Tensor maximum, Tensor log_sum)");
  m.def(
      "cross_entropy_backward(Tensor grad, Tensor logits, Tensor labels, Tensor maximum,"
      " Tensor log_sum, int ignore_index) -> Tensor");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("cross_entropy", without_autograd);
  m.impl("cross_entropy_forward", reference::cross_entropy_forward);
  m.impl("cross_entropy_backward", reference::cross_entropy_backward);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("cross_entropy_forward", forward_fake);
  m.impl("cross_entropy_backward", backward_fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("cross_entropy", with_autograd);
  m.impl("cross_entropy_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("cross_entropy_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
