// SPDX-License-Identifier: Apache-2.0
#include "ops/cross_entropy/cross_entropy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>

#include "ops/rows.h"
#include "ops/settings.h"

namespace mindspeed::ops {
namespace {

void check_not_negative(const char* op, const char* name, double value) {
  TORCH_CHECK_VALUE(
      std::isfinite(value) && value >= 0,
      op,
      ": ",
      name,
      " must be a finite number of at least 0 (0: off), got ",
      value);
}

}  // namespace

void check_settings(const char* op, const CrossEntropySettings& settings) {
  check_not_negative(op, "z_loss", settings.z_loss);
  check_not_negative(op, "softcap", settings.softcap);
  TORCH_CHECK_VALUE(
      settings.label_smoothing >= 0 && settings.label_smoothing <= 1,
      op,
      ": label_smoothing must lie in [0, 1], got ",
      settings.label_smoothing);
}

void check_cross_entropy(
    const CrossEntropySettings& settings, const at::Tensor& logits, const at::Tensor& labels) {
  check_settings("cross_entropy", settings);
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

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Three forward_fake(
    const CrossEntropySettings& settings, const at::Tensor& logits, const at::Tensor& labels) {
  check_cross_entropy(settings, logits, labels);
  const auto options = logits.options().dtype(arithmetic_type(logits));
  const auto one_a_row = [&] { return at::empty_symint(labels.sym_sizes(), options); };
  return {one_a_row(), one_a_row(), one_a_row()};
}

at::Tensor backward_fake(
    const CrossEntropySettings& /*settings*/,
    const at::Tensor& /*grad*/,
    const at::Tensor& logits,
    const at::Tensor& /*labels*/,
    const at::Tensor& /*maximum*/,
    const at::Tensor& /*log_sum*/) {
  return at::empty_symint(logits.sym_sizes(), logits.options());
}

at::Tensor without_autograd(
    const CrossEntropySettings& settings, const at::Tensor& logits, const at::Tensor& labels) {
  return std::get<0>(cross_entropy_forward(settings, logits, labels));
}

class CrossEntropy : public torch::autograd::Function<CrossEntropy> {
 public:
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const CrossEntropySettings& settings,
      const at::Tensor& logits,
      const at::Tensor& labels) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [loss, maximum, log_sum] = cross_entropy_forward(settings, logits, labels);
    context->save_for_backward({logits, labels, maximum, log_sum});
    context->saved_data["settings"] = settings.flat();
    return loss;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const auto settings = saved_settings<CrossEntropySettings>(context->saved_data["settings"]);
    at::Tensor grad_logits =
        cross_entropy_backward(settings, grads[0], saved[0], saved[1], saved[2], saved[3]);
    return {at::Tensor(), grad_logits, at::Tensor()};
  }
};

at::Tensor with_autograd(
    const CrossEntropySettings& settings, const at::Tensor& logits, const at::Tensor& labels) {
  return CrossEntropy::apply(settings, logits, labels);
}

// What enters the softmax.
at::Tensor capped(const CrossEntropySettings& settings, const at::Tensor& logits) {
  const at::Tensor wide = logits.to(arithmetic_type(logits));
  return settings.softcap > 0 ? (wide / settings.softcap).tanh() * settings.softcap : wide;
}

}  // namespace

namespace reference {

Three cross_entropy_forward(
    const CrossEntropySettings& settings, const at::Tensor& logits, const at::Tensor& labels) {
  check_cross_entropy(settings, logits, labels);
  const at::Tensor values = capped(settings, logits);
  const at::Tensor ignored = labels.eq(settings.ignore_index);
  const at::Tensor places = labels.masked_fill(ignored, 0).unsqueeze(1);
  const at::Tensor maximum = values.amax(1);
  const at::Tensor below = values - maximum.unsqueeze(1);
  const at::Tensor log_sum = below.exp().sum(1).log();
  at::Tensor loss = log_sum - below.gather(1, places).squeeze(1);
  if (settings.label_smoothing > 0) {
    loss = loss * (1 - settings.label_smoothing) +
           (log_sum - below.mean(1)) * settings.label_smoothing;
  }
  loss = loss + (maximum + log_sum).square() * settings.z_loss;
  return {
      loss.masked_fill(ignored, 0),
      maximum.masked_fill(ignored, 0),
      log_sum.masked_fill(ignored, 0)};
}

at::Tensor cross_entropy_backward(
    const CrossEntropySettings& settings,
    const at::Tensor& grad,
    const at::Tensor& logits,
    const at::Tensor& labels,
    const at::Tensor& maximum,
    const at::Tensor& log_sum) {
  const at::Tensor values = capped(settings, logits);
  const at::Tensor ignored = labels.eq(settings.ignore_index);
  const at::Tensor places = labels.masked_fill(ignored, 0).unsqueeze(1);
  const double smoothing = settings.label_smoothing;
  const at::Tensor on_softmax = 1 + (maximum + log_sum) * (2 * settings.z_loss);
  at::Tensor slope = at::softmax(values, 1) * on_softmax.unsqueeze(1);
  slope = slope.scatter_add(1, places, at::full_like(places, smoothing - 1, values.options()));
  slope = slope - smoothing / static_cast<double>(logits.size(1));
  if (settings.softcap > 0) slope = slope * (1 - (values / settings.softcap).square());
  const at::Tensor scaled = slope * grad.unsqueeze(1);
  return scaled.masked_fill(ignored.unsqueeze(1), 0).to(logits.scalar_type()).contiguous();
}

}  // namespace reference

at::Tensor cross_entropy(
    const at::Tensor& logits, const at::Tensor& labels, const CrossEntropySettings& settings) {
  static const auto op = operator_with_settings<&without_autograd>("mindspeed::cross_entropy");
  return call_with_settings(op, settings, logits, labels);
}

Three cross_entropy_forward(
    const CrossEntropySettings& settings, const at::Tensor& logits, const at::Tensor& labels) {
  static const auto op = operator_with_settings<&forward_fake>("mindspeed::cross_entropy_forward");
  return call_with_settings(op, settings, logits, labels);
}

at::Tensor cross_entropy_backward(
    const CrossEntropySettings& settings,
    const at::Tensor& grad,
    const at::Tensor& logits,
    const at::Tensor& labels,
    const at::Tensor& maximum,
    const at::Tensor& log_sum) {
  static const auto op =
      operator_with_settings<&backward_fake>("mindspeed::cross_entropy_backward");
  return call_with_settings(op, settings, grad, logits, labels, maximum, log_sum);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def(
      "cross_entropy(Tensor logits, Tensor labels, int ignore_index=-100, float z_loss=0.0,"
      " float label_smoothing=0.0, float softcap=0.0) -> Tensor");
  m.def(
      "cross_entropy_forward(Tensor logits, Tensor labels, int ignore_index, float z_loss,"
      " float label_smoothing, float softcap) -> (Tensor loss, Tensor maximum, Tensor log_sum)");
  m.def(
      "cross_entropy_backward(Tensor grad, Tensor logits, Tensor labels, Tensor maximum,"
      " Tensor log_sum, int ignore_index, float z_loss, float label_smoothing, float softcap)"
      " -> Tensor");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("cross_entropy", flat_settings<&without_autograd>());
  m.impl("cross_entropy_forward", flat_settings<&reference::cross_entropy_forward>());
  m.impl("cross_entropy_backward", flat_settings<&reference::cross_entropy_backward>());
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("cross_entropy_forward", flat_settings<&forward_fake>());
  m.impl("cross_entropy_backward", flat_settings<&backward_fake>());
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("cross_entropy", flat_settings<&with_autograd>());
  m.impl("cross_entropy_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("cross_entropy_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
