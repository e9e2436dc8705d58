// SPDX-License-Identifier: Apache-2.0
// Checks, schemas, fakes and autograd; the kernels are in reference.cpp and cpu.cpp.
#include "ops/flash_attention/flash_attention.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>

#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {

void check_flash_attention(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const std::optional<at::Tensor>& cu_seqlens_q,
    const std::optional<at::Tensor>& cu_seqlens_k,
    double dropout) {
  check_float("flash_attention", "q", q);
  TORCH_CHECK_VALUE(
      k.scalar_type() == q.scalar_type() && v.scalar_type() == q.scalar_type(),
      "flash_attention: q, k and v must have one dtype, got ",
      q.scalar_type(),
      ", ",
      k.scalar_type(),
      " and ",
      v.scalar_type());
  TORCH_CHECK_VALUE(
      cu_seqlens_q.has_value() == cu_seqlens_k.has_value(),
      "flash_attention: cu_seqlens_q and cu_seqlens_k must be given together");
  const int64_t dims = cu_seqlens_q ? 3 : 4;
  TORCH_CHECK_VALUE(
      q.dim() == dims && k.dim() == dims && v.dim() == dims,
      "flash_attention: q, k and v must be ",
      cu_seqlens_q ? "[tokens, heads, size] with cu_seqlens"
                   : "[batch, sequence, heads, size] without cu_seqlens",
      ", got ",
      q.sym_sizes(),
      ", ",
      k.sym_sizes(),
      " and ",
      v.sym_sizes());
  bool leading_match = true;
  for (int64_t dim = 0; dim < dims - 1; ++dim)
    leading_match = leading_match && k.sym_size(dim) == v.sym_size(dim);
  if (!cu_seqlens_q) leading_match = leading_match && k.sym_size(0) == q.sym_size(0);
  TORCH_CHECK_VALUE(
      leading_match && k.sym_size(-1) == q.sym_size(-1),
      "flash_attention: k and v must agree in all but the last dim, k and q in batch and head "
      "size, got q ",
      q.sym_sizes(),
      ", k ",
      k.sym_sizes(),
      " and v ",
      v.sym_sizes());
  TORCH_CHECK_VALUE(
      k.sym_size(-2) > 0 && q.sym_size(-2) % k.sym_size(-2) == 0,
      "flash_attention: the number of query heads (",
      q.sym_size(-2),
      ") must be a multiple of the number of key/value heads (",
      k.sym_size(-2),
      ")");
  for (const auto* bounds : {&cu_seqlens_q, &cu_seqlens_k}) {
    if (!bounds->has_value()) continue;
    TORCH_CHECK_VALUE(
        (*bounds)->dim() == 1 && (*bounds)->scalar_type() == at::kInt &&
            (*bounds)->sym_size(0) >= 1 && (*bounds)->sym_size(0) == cu_seqlens_q->sym_size(0),
        "flash_attention: cu_seqlens must be int32 of one dim with documents + 1 elements, the "
        "same number for q and k");
  }
  TORCH_CHECK_VALUE(
      dropout >= 0 && dropout < 1, "flash_attention: dropout must be in [0, 1), got ", dropout);
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Pair = std::tuple<at::Tensor, at::Tensor>;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Bounds = std::optional<at::Tensor>;

Pair forward_fake(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const Bounds& cu_seqlens_q,
    const Bounds& cu_seqlens_k,
    bool /*causal*/,
    double /*scale*/,
    double dropout,
    int64_t /*seed*/) {
  check_flash_attention(q, k, v, cu_seqlens_q, cu_seqlens_k, dropout);
  std::vector<c10::SymInt> out_sizes = q.sym_sizes().vec();
  out_sizes.back() = v.sym_size(-1);
  std::vector<c10::SymInt> lse_sizes;
  if (!cu_seqlens_q) lse_sizes.push_back(q.sym_size(0));
  lse_sizes.push_back(q.sym_size(-2));
  lse_sizes.push_back(q.sym_size(-3));
  return {
      at::empty_symint(out_sizes, q.options()),
      at::empty_symint(lse_sizes, q.options().dtype(arithmetic_type(q)))};
}

Triple backward_fake(
    const at::Tensor& /*grad_out*/,
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const at::Tensor& /*out*/,
    const at::Tensor& /*log_sum_exp*/,
    const Bounds& /*cu_seqlens_q*/,
    const Bounds& /*cu_seqlens_k*/,
    bool /*causal*/,
    double /*scale*/,
    double /*dropout*/,
    int64_t /*seed*/) {
  return {
      at::empty_symint(q.sym_sizes(), q.options()),
      at::empty_symint(k.sym_sizes(), k.options()),
      at::empty_symint(v.sym_sizes(), v.options())};
}

double scale_or_default(const at::Tensor& q, std::optional<double> scale) {
  return scale ? *scale : 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
}

Pair without_autograd(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const Bounds& cu_seqlens_q,
    const Bounds& cu_seqlens_k,
    bool causal,
    std::optional<double> scale,
    double dropout,
    int64_t seed) {
  return flash_attention_forward(
      q, k, v, cu_seqlens_q, cu_seqlens_k, causal, scale_or_default(q, scale), dropout, seed);
}

class FlashAttention : public torch::autograd::Function<FlashAttention> {
 public:
  static variable_list forward(
      AutogradContext* context,
      const at::Tensor& q,
      const at::Tensor& k,
      const at::Tensor& v,
      const Bounds& cu_seqlens_q,
      const Bounds& cu_seqlens_k,
      bool causal,
      double scale,
      double dropout,
      int64_t seed) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [out, lse] =
        flash_attention_forward(q, k, v, cu_seqlens_q, cu_seqlens_k, causal, scale, dropout, seed);
    context->save_for_backward(
        {q,
         k,
         v,
         out,
         lse,
         cu_seqlens_q.value_or(at::Tensor()),
         cu_seqlens_k.value_or(at::Tensor())});
    context->saved_data["causal"] = causal;
    context->saved_data["scale"] = scale;
    context->saved_data["dropout"] = dropout;
    context->saved_data["seed"] = seed;
    context->mark_non_differentiable({lse});
    return {out, lse};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    auto bounds = [&](size_t index) {
      return saved[index].defined() ? Bounds(saved[index]) : Bounds();
    };
    auto [grad_q, grad_k, grad_v] = flash_attention_backward(
        grads[0],
        saved[0],
        saved[1],
        saved[2],
        saved[3],
        saved[4],
        bounds(5),
        bounds(6),
        context->saved_data["causal"].toBool(),
        context->saved_data["scale"].toDouble(),
        context->saved_data["dropout"].toDouble(),
        context->saved_data["seed"].toInt());
    variable_list result(9);
    result[0] = grad_q;
    result[1] = grad_k;
    result[2] = grad_v;
    return result;
  }
};

Pair with_autograd(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const Bounds& cu_seqlens_q,
    const Bounds& cu_seqlens_k,
    bool causal,
    std::optional<double> scale,
    double dropout,
    int64_t seed) {
  auto outputs = FlashAttention::apply(
      q, k, v, cu_seqlens_q, cu_seqlens_k, causal, scale_or_default(q, scale), dropout, seed);
  return {outputs[0], outputs[1]};
}

}  // namespace

Pair flash_attention(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const Bounds& cu_seqlens_q,
    const Bounds& cu_seqlens_k,
    bool causal,
    std::optional<double> scale,
    double dropout,
    int64_t seed) {
  static const auto op = operator_handle<decltype(flash_attention)>("mindspeed::flash_attention");
  return op.call(q, k, v, cu_seqlens_q, cu_seqlens_k, causal, scale, dropout, seed);
}

Pair flash_attention_forward(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const Bounds& cu_seqlens_q,
    const Bounds& cu_seqlens_k,
    bool causal,
    double scale,
    double dropout,
    int64_t seed) {
  static const auto op =
      operator_handle<decltype(flash_attention_forward)>("mindspeed::flash_attention_forward");
  return op.call(q, k, v, cu_seqlens_q, cu_seqlens_k, causal, scale, dropout, seed);
}

Triple flash_attention_backward(
    const at::Tensor& grad_out,
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const at::Tensor& out,
    const at::Tensor& log_sum_exp,
    const Bounds& cu_seqlens_q,
    const Bounds& cu_seqlens_k,
    bool causal,
    double scale,
    double dropout,
    int64_t seed) {
  static const auto op =
      operator_handle<decltype(flash_attention_backward)>("mindspeed::flash_attention_backward");
  return op.call(
      grad_out,
      q,
      k,
      v,
      out,
      log_sum_exp,
      cu_seqlens_q,
      cu_seqlens_k,
      causal,
      scale,
      dropout,
      seed);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def(
      "flash_attention(Tensor q, Tensor k, Tensor v, Tensor? cu_seqlens_q=None, Tensor? "
      "cu_seqlens_k=None, "
      "bool causal=False, float? scale=None, float dropout=0.0, int seed=0) -> (Tensor out, Tensor "
      "log_sum_exp)");
  m.def(
      "flash_attention_forward(Tensor q, Tensor k, Tensor v, Tensor? cu_seqlens_q, Tensor? "
      "cu_seqlens_k, "
      "bool causal, float scale, float dropout, int seed) -> (Tensor out, Tensor log_sum_exp)");
  m.def(
      "flash_attention_backward(Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor "
      "log_sum_exp, "
      "Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, bool causal, float scale, float dropout, int "
      "seed)"
      " -> (Tensor grad_q, Tensor grad_k, Tensor grad_v)");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("flash_attention", without_autograd);
  m.impl("flash_attention_forward", reference::flash_attention_forward);
  m.impl("flash_attention_backward", reference::flash_attention_backward);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("flash_attention_forward", forward_fake);
  m.impl("flash_attention_backward", backward_fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("flash_attention", with_autograd);
  m.impl("flash_attention_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("flash_attention_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
