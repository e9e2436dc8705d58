// SPDX-License-Identifier: Apache-2.0
// Shape letters: R rows, E experts, K inputs, N outputs. The GEMMs are torch's on every device.
#include "ops/grouped_gemm/grouped_gemm.h"

#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "ops/linear_weight_gradient/linear_weight_gradient.h"
#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

void check_rows(
    const char* op,
    const char* name,
    const at::Tensor& rows,
    const char* other_name,
    const at::Tensor& other,
    const at::Tensor& tokens_per_expert) {
  check_float(op, name, rows);
  TORCH_CHECK_VALUE(rows.dim() == 2, op, ": ", name, " must have two dims, got ", rows.sym_sizes());
  TORCH_CHECK_VALUE(
      other.scalar_type() == rows.scalar_type() && other.device() == rows.device(),
      op,
      ": ",
      other_name,
      " must have the dtype and device of ",
      name,
      " (",
      rows.scalar_type(),
      " on ",
      rows.device(),
      "), got ",
      other.scalar_type(),
      " on ",
      other.device());
  TORCH_CHECK_VALUE(
      tokens_per_expert.scalar_type() == at::kLong && tokens_per_expert.dim() == 1,
      op,
      ": tokens_per_expert must be int64 of shape [E], got ",
      tokens_per_expert.scalar_type(),
      " ",
      tokens_per_expert.sym_sizes());
}

void check_forward(
    const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& tokens_per_expert) {
  check_rows("grouped_gemm", "rows", rows, "weight", weight, tokens_per_expert);
  TORCH_CHECK_VALUE(
      weight.dim() == 3 && weight.sym_size(0) == tokens_per_expert.sym_size(0) &&
          weight.sym_size(1) == rows.sym_size(1),
      "grouped_gemm: weight must have shape [",
      tokens_per_expert.sym_size(0),
      ", ",
      rows.sym_size(1),
      ", N], a matrix for each of tokens_per_expert over the columns of rows, got ",
      weight.sym_sizes());
}

void check_weight_gradient(
    const at::Tensor& rows, const at::Tensor& grad, const at::Tensor& tokens_per_expert) {
  const char* op = "grouped_gemm_weight_gradient";
  check_rows(op, "rows", rows, "grad", grad, tokens_per_expert);
  TORCH_CHECK_VALUE(
      grad.dim() == 2 && grad.sym_size(0) == rows.sym_size(0),
      op,
      ": grad must have shape [",
      rows.sym_size(0),
      ", N], a row for each of rows, got ",
      grad.sym_sizes());
}

void check_accumulation(
    const at::Tensor& grad_weight,
    const at::Tensor& rows,
    const at::Tensor& grad,
    const at::Tensor& tokens_per_expert) {
  check_weight_gradient(rows, grad, tokens_per_expert);
  TORCH_CHECK_VALUE(
      grad_weight.dim() == 3 && grad_weight.sym_size(0) == tokens_per_expert.sym_size(0) &&
          grad_weight.sym_size(1) == rows.sym_size(1) &&
          grad_weight.sym_size(2) == grad.sym_size(1),
      "grouped_gemm_weight_gradient_: grad_weight must have shape [",
      tokens_per_expert.sym_size(0),
      ", ",
      rows.sym_size(1),
      ", ",
      grad.sym_size(1),
      "], got ",
      grad_weight.sym_sizes());
  check_accumulator("grouped_gemm_weight_gradient_", grad_weight, rows);
}

// How many rows each expert has, on the host.
std::vector<int64_t> group_sizes(const at::Tensor& tokens_per_expert, int64_t num_rows) {
  const at::Tensor host = tokens_per_expert.to(at::kCPU).contiguous();
  const int64_t* counts = host.const_data_ptr<int64_t>();
  std::vector<int64_t> sizes(counts, counts + host.numel());
  const bool negative = std::any_of(sizes.begin(), sizes.end(), [](int64_t n) { return n < 0; });
  const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  TORCH_CHECK_VALUE(
      !negative && sum == num_rows,
      "grouped_gemm: tokens_per_expert must be at least 0 and add up to the number of rows (",
      num_rows,
      "), got a sum of ",
      sum,
      negative ? " with negative counts" : "");
  return sizes;
}

// Calls body(expert, its rows as a view of each matrix) for every group.
void for_groups(
    const std::vector<int64_t>& sizes,
    const at::Tensor& left,
    const at::Tensor& right,
    const std::function<void(int64_t, const at::Tensor&, const at::Tensor&)>& body) {
  int64_t first = 0;
  for (size_t expert = 0; expert < sizes.size(); ++expert) {
    const int64_t size = sizes[expert];
    body(static_cast<int64_t>(expert), left.narrow(0, first, size), right.narrow(0, first, size));
    first += size;
  }
}

bool library_says(const char* question) {
  const auto op = c10::Dispatcher::singleton().findSchema({question, ""});
  return op && op->typed<bool()>().call();
}

// Whether 16-bit operands are widened to float32 first: on a CPU whose GEMM library has no kernel
// for them, torch's own loop would take ten times as long, and more.
bool is_widened(const at::Tensor& rows) {
  if (!rows.is_cpu()) return false;
  static const bool bf16 = library_says("mkldnn::_is_mkldnn_bf16_supported");
  static const bool fp16 = library_says("mkldnn::_is_mkldnn_fp16_supported");
  return (rows.scalar_type() == at::kBFloat16 && !bf16) ||
         (rows.scalar_type() == at::kHalf && !fp16);
}

// out = left right
void multiply_into(at::Tensor out, const at::Tensor& left, const at::Tensor& right) {
  if (is_widened(left)) {
    out.copy_(at::mm(left.to(at::kFloat), right.to(at::kFloat)));
  } else {
    at::mm_out(out, left, right);
  }
}

bool is_one_batch(const at::Tensor& rows, const std::vector<int64_t>& sizes) {
  const bool equal =
      std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) == sizes.end();
  return equal && rows.size(0) > 0 && !is_widened(rows);
}

at::Tensor forward(
    const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& tokens_per_expert) {
  check_forward(rows, weight, tokens_per_expert);
  const std::vector<int64_t> sizes = group_sizes(tokens_per_expert, rows.size(0));
  const auto experts = static_cast<int64_t>(sizes.size());
  at::Tensor out_RN = at::empty({rows.size(0), weight.size(2)}, rows.options());
  if (is_one_batch(rows, sizes)) {
    at::Tensor out = out_RN.view({experts, sizes[0], -1});
    at::bmm_out(out, rows.reshape({experts, sizes[0], -1}), weight);
    return out_RN;
  }
  for_groups(sizes, rows, out_RN, [&](int64_t e, const at::Tensor& group, const at::Tensor& out) {
    if (group.size(0) > 0) multiply_into(out, group, weight.select(0, e));
  });
  return out_RN;
}

at::Tensor weight_gradient(
    const at::Tensor& rows, const at::Tensor& grad, const at::Tensor& tokens_per_expert) {
  check_weight_gradient(rows, grad, tokens_per_expert);
  const std::vector<int64_t> sizes = group_sizes(tokens_per_expert, rows.size(0));
  const auto experts = static_cast<int64_t>(sizes.size());
  at::Tensor total_EKN = at::empty({experts, rows.size(1), grad.size(1)}, rows.options());
  if (is_one_batch(rows, sizes)) {
    const at::Tensor groups = rows.reshape({experts, sizes[0], -1});
    at::bmm_out(total_EKN, groups.transpose(1, 2), grad.reshape({experts, sizes[0], -1}));
    return total_EKN;
  }
  for_groups(sizes, rows, grad, [&](int64_t e, const at::Tensor& group, const at::Tensor& g) {
    const at::Tensor total = total_EKN.select(0, e);
    if (group.size(0) > 0) {
      multiply_into(total, group.t(), g);
    } else {
      total.zero_();
    }
  });
  return total_EKN;
}

void accumulate(
    const at::Tensor& grad_weight,
    const at::Tensor& rows,
    const at::Tensor& grad,
    const at::Tensor& tokens_per_expert) {
  check_accumulation(grad_weight, rows, grad, tokens_per_expert);
  const std::vector<int64_t> sizes = group_sizes(tokens_per_expert, rows.size(0));
  for_groups(sizes, rows, grad, [&](int64_t e, const at::Tensor& group, const at::Tensor& g) {
    if (group.size(0) > 0) add_transposed_product(grad_weight.select(0, e), group, g);
  });
}

at::Tensor forward_fake(
    const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& tokens_per_expert) {
  check_forward(rows, weight, tokens_per_expert);
  return at::empty_symint({rows.sym_size(0), weight.sym_size(2)}, rows.options());
}

at::Tensor weight_gradient_fake(
    const at::Tensor& rows, const at::Tensor& grad, const at::Tensor& tokens_per_expert) {
  check_weight_gradient(rows, grad, tokens_per_expert);
  return at::empty_symint(
      {tokens_per_expert.sym_size(0), rows.sym_size(1), grad.sym_size(1)}, rows.options());
}

class GroupedGemm : public torch::autograd::Function<GroupedGemm> {
 public:
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& rows,
      const at::Tensor& weight,
      const at::Tensor& tokens_per_expert) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({rows, weight, tokens_per_expert});
    return grouped_gemm(rows, weight, tokens_per_expert);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    at::Tensor grad_rows;
    at::Tensor grad_weight;
    if (context->needs_input_grad(0)) {
      grad_rows = grouped_gemm(grads[0], saved[1].transpose(1, 2), saved[2]);
    }
    if (context->needs_input_grad(1)) {
      grad_weight = grouped_gemm_weight_gradient(saved[0], grads[0], saved[2]);
    }
    return {grad_rows, grad_weight, at::Tensor()};
  }
};

at::Tensor with_autograd(
    const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& tokens_per_expert) {
  return GroupedGemm::apply(rows, weight, tokens_per_expert);
}

}  // namespace

at::Tensor grouped_gemm(
    const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& tokens_per_expert) {
  static const auto op = operator_handle<decltype(grouped_gemm)>("mindspeed::grouped_gemm");
  return op.call(rows, weight, tokens_per_expert);
}

at::Tensor grouped_gemm_weight_gradient(
    const at::Tensor& rows, const at::Tensor& grad, const at::Tensor& tokens_per_expert) {
  static const auto op = operator_handle<decltype(grouped_gemm_weight_gradient)>(
      "mindspeed::grouped_gemm_weight_gradient");
  return op.call(rows, grad, tokens_per_expert);
}

void grouped_gemm_weight_gradient_(
    const at::Tensor& grad_weight,
    const at::Tensor& rows,
    const at::Tensor& grad,
    const at::Tensor& tokens_per_expert) {
  static const auto op = operator_handle<decltype(grouped_gemm_weight_gradient_)>(
      "mindspeed::grouped_gemm_weight_gradient_");
  op.call(grad_weight, rows, grad, tokens_per_expert);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def("grouped_gemm(Tensor rows, Tensor weight, Tensor tokens_per_expert) -> Tensor");
  m.def(
      "grouped_gemm_weight_gradient(Tensor rows, Tensor grad, Tensor tokens_per_expert)"
      " -> Tensor");
  m.def(
      "grouped_gemm_weight_gradient_(Tensor(a!) grad_weight, Tensor rows, Tensor grad,"
      " Tensor tokens_per_expert) -> ()");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("grouped_gemm", forward);
  m.impl("grouped_gemm_weight_gradient", weight_gradient);
  m.impl("grouped_gemm_weight_gradient_", accumulate);
}

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("grouped_gemm", forward);
  m.impl("grouped_gemm_weight_gradient", weight_gradient);
  m.impl("grouped_gemm_weight_gradient_", accumulate);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("grouped_gemm", forward_fake);
  m.impl("grouped_gemm_weight_gradient", weight_gradient_fake);
  m.impl("grouped_gemm_weight_gradient_", check_accumulation);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("grouped_gemm", with_autograd);
  m.impl("grouped_gemm_weight_gradient", torch::autograd::autogradNotImplementedFallback());
  m.impl("grouped_gemm_weight_gradient_", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
