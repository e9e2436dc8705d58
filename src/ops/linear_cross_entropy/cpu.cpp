// SPDX-License-Identifier: Apache-2.0
// Chunks of tokens: GEMM to logits, loss and gradient in place, GEMMs to the gradients.
// Shape letters: C tokens of a chunk, N hidden, V vocabulary.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "ops/linear_cross_entropy/kernel.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "ops/rows.h"

namespace mindspeed::ops {

namespace {

constexpr int64_t kLogitsBytes = 32
                                 << 20;  // stays in a large last-level cache, still feeds the GEMMs

// Number of labels that count; throws on one outside the vocabulary.
int64_t count_valid(const at::Tensor& labels, int64_t vocab, int64_t ignore_index) {
  const int64_t* data = labels.const_data_ptr<int64_t>();
  int64_t valid = 0;
  for (int64_t token = 0; token < labels.numel(); ++token) {
    if (data[token] == ignore_index) continue;
    TORCH_CHECK_INDEX(
        data[token] >= 0 && data[token] < vocab,
        "linear_cross_entropy: labels must be in [0, ",
        vocab,
        ") or ignore_index (",
        ignore_index,
        "), got ",
        data[token],
        " at token ",
        token);
    ++valid;
  }
  return valid;
}

// Gradients in the inputs' dtype, from float32 d loss / d logits of one chunk.
struct Gradients {
  at::Tensor hidden_TN;  // undefined: not needed
  at::Tensor weight_VN;  // float32, or undefined

  void add_chunk(
      const at::Tensor& grad_CV,
      const at::Tensor& hidden_CN,
      const at::Tensor& weight,
      int64_t begin) {
    const at::Tensor grad = grad_CV.to(weight.scalar_type());
    if (hidden_TN.defined()) {
      at::Tensor rows = hidden_TN.narrow(0, begin, hidden_CN.size(0));
      at::mm_out(rows, grad, weight);
    }
    if (!weight_VN.defined()) return;
    if (weight.scalar_type() == at::kFloat) {
      weight_VN.addmm_(grad.t(), hidden_CN);
    } else {
      weight_VN.add_(at::mm(grad.t(), hidden_CN));
    }
  }
};

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> forward_cpu(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    int64_t ignore_index,
    double z_loss,
    bool need_grad_hidden,
    bool need_grad_weight) {
  check_linear_cross_entropy(hidden, weight, labels);
  const int64_t tokens = hidden.size(0);
  const int64_t vocab = weight.size(0);
  const at::Tensor dense_labels = labels.contiguous();
  const int64_t valid = count_valid(dense_labels, vocab, ignore_index);
  const auto wide = hidden.options().dtype(at::kFloat);
  Gradients gradients;
  if (need_grad_hidden) gradients.hidden_TN = at::empty(hidden.sizes(), hidden.options());
  if (need_grad_weight) gradients.weight_VN = at::zeros(weight.sizes(), wide);
  at::Tensor losses = at::empty({tokens}, wide);

  const int64_t chunk = std::max<int64_t>(kLogitsBytes / std::max<int64_t>(vocab * 4, 1), 16);
  at::Tensor buffer = at::empty({std::min(chunk, tokens), vocab}, hidden.options());
  for (int64_t begin = 0; begin < tokens; begin += chunk) {
    const int64_t count = std::min(chunk, tokens - begin);
    const at::Tensor hidden_CN = hidden.narrow(0, begin, count);
    at::Tensor product_CV = buffer.narrow(0, 0, count);
    at::mm_out(product_CV, hidden_CN, weight.t());
    at::Tensor logits_CV = product_CV.to(at::kFloat);
    const CrossEntropyRows rows{
        .logits = logits_CV.mutable_data_ptr<float>(),
        .labels = dense_labels.const_data_ptr<int64_t>() + begin,
        .losses = losses.mutable_data_ptr<float>() + begin,
        .vocab = vocab,
        .ignore_index = ignore_index,
        .z_loss = static_cast<float>(z_loss),
        .write_gradient = need_grad_hidden || need_grad_weight};
    at::parallel_for(
        0, count, 1, [&](int64_t first, int64_t last) { cross_entropy_rows(rows, first, last); });
    if (rows.write_gradient) gradients.add_chunk(logits_CV, hidden_CN, weight, begin);
  }
  return {
      losses.sum(at::kDouble).to(at::kFloat),
      at::scalar_tensor(valid, labels.options()),
      need_grad_hidden ? gradients.hidden_TN : at::empty({0}, hidden.options()),
      need_grad_weight ? gradients.weight_VN.to(weight.scalar_type())
                       : at::empty({0}, weight.options())};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> forward_cpu_any(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels,
    int64_t ignore_index,
    double z_loss,
    bool need_grad_hidden,
    bool need_grad_weight) {
  if (hidden.scalar_type() == at::kDouble) {
    count_valid(labels.contiguous(), weight.size(0), ignore_index);
    return reference::linear_cross_entropy_forward(
        hidden, weight, labels, ignore_index, z_loss, need_grad_hidden, need_grad_weight);
  }
  return forward_cpu(
      hidden, weight, labels, ignore_index, z_loss, need_grad_hidden, need_grad_weight);
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("linear_cross_entropy_forward", forward_cpu_any);
}

}  // namespace mindspeed::ops
