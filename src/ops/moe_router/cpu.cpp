// SPDX-License-Identifier: Apache-2.0
// Tensors to the kernel's struct, tokens over threads.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "ops/moe_router/kernel.h"
#include "ops/moe_router/moe_router.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

MoeScoring scoring_of(
    const at::Tensor& logit_rows,
    int64_t top_k,
    std::string_view score,
    bool renormalize,
    double scaling_factor) {
  MoeScoring scoring{};
  scoring.type = element_type(logit_rows);
  scoring.logits = logit_rows.const_data_ptr();
  scoring.logits_stride = logit_rows.stride(0);
  scoring.num_experts = logit_rows.size(1);
  scoring.top_k = top_k;
  scoring.sigmoid = score == "sigmoid";
  scoring.renormalize = renormalize;
  scoring.scaling_factor = static_cast<float>(scaling_factor);
  return scoring;
}

at::Tensor count_tokens(const at::Tensor& experts, int64_t num_experts) {
  at::Tensor counts = at::zeros({num_experts}, experts.options());
  int64_t* count = counts.mutable_data_ptr<int64_t>();
  const int64_t* expert = experts.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < experts.numel(); ++i) ++count[expert[i]];
  return counts;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> forward_cpu(
    const at::Tensor& logits,
    int64_t top_k,
    std::string_view score,
    const std::optional<at::Tensor>& correction_bias,
    int64_t num_groups,
    int64_t top_k_groups,
    bool renormalize,
    double scaling_factor) {
  if (logits.scalar_type() == at::kDouble) {
    return reference::moe_router(
        logits,
        top_k,
        score,
        correction_bias,
        num_groups,
        top_k_groups,
        renormalize,
        scaling_factor);
  }
  check_moe_router(logits, top_k, score, correction_bias, num_groups, top_k_groups);
  at::Tensor experts = at::empty({logits.size(0), top_k}, logits.options().dtype(at::kLong));
  at::Tensor weights = at::empty({logits.size(0), top_k}, logits.options().dtype(at::kFloat));
  const at::Tensor rows = as_rows(logits);
  const at::Tensor bias =
      correction_bias ? correction_bias->to(at::kFloat).contiguous() : at::Tensor();
  MoeRouterForward args{};
  args.scoring = scoring_of(rows, top_k, score, renormalize, scaling_factor);
  args.correction_bias = correction_bias ? bias.const_data_ptr<float>() : nullptr;
  args.num_groups = num_groups;
  args.top_k_groups = top_k_groups;
  args.experts = experts.mutable_data_ptr<int64_t>();
  args.weights = weights.mutable_data_ptr<float>();
  for_rows(rows.size(0), rows.size(1) * top_k, [&](int64_t begin, int64_t end) {
    moe_router_forward_rows(args, begin, end);
  });
  return {weights, experts, count_tokens(experts, logits.size(1))};
}

at::Tensor backward_cpu(
    const at::Tensor& grad_weights,
    const at::Tensor& logits,
    const at::Tensor& experts,
    std::string_view score,
    bool renormalize,
    double scaling_factor) {
  if (logits.scalar_type() == at::kDouble) {
    return reference::moe_router_backward(
        grad_weights, logits, experts, score, renormalize, scaling_factor);
  }
  at::Tensor grad_logits = at::empty(logits.sizes(), logits.options());
  const at::Tensor rows = as_rows(logits);
  const at::Tensor grad = grad_weights.contiguous();
  const at::Tensor chosen = experts.contiguous();
  MoeRouterBackward args{};
  args.scoring = scoring_of(rows, experts.size(1), score, renormalize, scaling_factor);
  args.grad_weights = grad.const_data_ptr<float>();
  args.experts = chosen.const_data_ptr<int64_t>();
  args.grad_logits = grad_logits.mutable_data_ptr();
  for_rows(rows.size(0), rows.size(1), [&](int64_t begin, int64_t end) {
    moe_router_backward_rows(args, begin, end);
  });
  return grad_logits;
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("moe_router", forward_cpu);
  m.impl("moe_router_backward", backward_cpu);
}

}  // namespace mindspeed::ops
