// SPDX-License-Identifier: Apache-2.0
// Tensors to the kernel's struct, rows over threads.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/cross_entropy/cross_entropy.h"
#include "ops/cross_entropy/kernel.h"
#include "ops/rows.h"
#include "ops/settings.h"

namespace mindspeed::ops {
namespace {

// The kernel reads logits[label] without looking.
void check_labels(const at::Tensor& labels, int64_t vocabulary, int64_t ignore_index) {
  const int64_t* data = labels.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < labels.numel(); ++row) {
    TORCH_CHECK_VALUE(
        data[row] == ignore_index || (data[row] >= 0 && data[row] < vocabulary),
        "cross_entropy: labels must lie in [0, ",
        vocabulary,
        ") or be ignore_index (",
        ignore_index,
        "), got ",
        data[row],
        " in row ",
        row);
  }
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> forward_cpu(
    const CrossEntropySettings& settings, const at::Tensor& logits, const at::Tensor& labels) {
  check_cross_entropy(settings, logits, labels);
  const at::Tensor dense_labels = labels.contiguous();
  check_labels(dense_labels, logits.size(1), settings.ignore_index);
  if (logits.scalar_type() == at::kDouble) {
    return reference::cross_entropy_forward(settings, logits, labels);
  }
  at::Tensor loss = at::empty(labels.sizes(), logits.options().dtype(at::kFloat));
  at::Tensor maximum = at::empty(labels.sizes(), loss.options());
  at::Tensor log_sum = at::empty(labels.sizes(), loss.options());
  const at::Tensor rows = as_rows(logits);
  CrossEntropyForward args{};
  args.settings = settings;
  args.type = element_type(logits);
  args.logits = rows.const_data_ptr();
  args.logits_stride = rows.stride(0);
  args.labels = dense_labels.const_data_ptr<int64_t>();
  args.loss = loss.mutable_data_ptr<float>();
  args.maximum = maximum.mutable_data_ptr<float>();
  args.log_sum = log_sum.mutable_data_ptr<float>();
  args.vocabulary = rows.size(1);
  for_rows(rows.size(0), args.vocabulary, [&](int64_t begin, int64_t end) {
    cross_entropy_forward_rows(args, begin, end);
  });
  return {loss, maximum, log_sum};
}

at::Tensor backward_cpu(
    const CrossEntropySettings& settings,
    const at::Tensor& grad,
    const at::Tensor& logits,
    const at::Tensor& labels,
    const at::Tensor& maximum,
    const at::Tensor& log_sum) {
  if (logits.scalar_type() == at::kDouble) {
    return reference::cross_entropy_backward(settings, grad, logits, labels, maximum, log_sum);
  }
  at::Tensor grad_logits = at::empty(logits.sizes(), logits.options());
  const at::Tensor rows = as_rows(logits);
  const at::Tensor dense_grad = grad.contiguous();
  const at::Tensor dense_labels = labels.contiguous();
  const at::Tensor dense_maximum = maximum.contiguous();
  const at::Tensor dense_log_sum = log_sum.contiguous();
  check_labels(dense_labels, logits.size(1), settings.ignore_index);
  CrossEntropyBackward args{};
  args.settings = settings;
  args.type = element_type(logits);
  args.grad_loss = dense_grad.const_data_ptr<float>();
  args.logits = rows.const_data_ptr();
  args.logits_stride = rows.stride(0);
  args.labels = dense_labels.const_data_ptr<int64_t>();
  args.maximum = dense_maximum.const_data_ptr<float>();
  args.log_sum = dense_log_sum.const_data_ptr<float>();
  args.grad_logits = grad_logits.mutable_data_ptr();
  args.vocabulary = rows.size(1);
  for_rows(rows.size(0), args.vocabulary, [&](int64_t begin, int64_t end) {
    cross_entropy_backward_rows(args, begin, end);
  });
  return grad_logits;
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("cross_entropy_forward", flat_settings<&forward_cpu>());
  m.impl("cross_entropy_backward", flat_settings<&backward_cpu>());
}

}  // namespace mindspeed::ops
