// SPDX-License-Identifier: Apache-2.0
// Attention in plain ATen, a sequence at a time with its whole score matrix: what the kernels are
// checked against, and what runs on devices without a kernel. Shape letters: S queries, L keys, H
// query heads, K key/value heads.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "ops/flash_attention/flash_attention.h"
#include "ops/flash_attention/sequences.h"
#include "ops/rows.h"

namespace mindspeed::ops::reference {
namespace {

constexpr int64_t kMask32 = 0xffffffff;

at::Tensor mix(at::Tensor x) {
  x = x.bitwise_xor(x.__rshift__(16));
  x = (x * 0x7feb352d).bitwise_and(kMask32);
  x = x.bitwise_xor(x.__rshift__(15));
  x = (x * 0x846ca68b).bitwise_and(kMask32);
  return x.bitwise_xor(x.__rshift__(16));
}

at::Tensor mix(int64_t value, const at::TensorOptions& options) {
  return mix(at::arange(value & kMask32, (value & kMask32) + 1, options));
}

// [H, S, L]: 0 where dropped, 1 / (1 - p) elsewhere; the same hash as the kernel's.
at::Tensor dropout_factors(
    int64_t num_heads,
    const SequenceRange& range,
    double dropout,
    int64_t seed,
    const at::TensorOptions& options) {
  const auto integers = options.dtype(at::kLong);
  const at::Tensor by_seed =
      mix(mix(static_cast<int64_t>(static_cast<uint64_t>(seed) >> 32), integers)
              .bitwise_xor(at::arange(seed & kMask32, (seed & kMask32) + 1, integers)));
  const at::Tensor head_H11 = at::arange(num_heads, integers).view({-1, 1, 1});
  const at::Tensor query_S1 =
      at::arange(range.query_begin, range.query_end, integers).view({1, -1, 1});
  const at::Tensor key_L = at::arange(range.key_begin, range.key_end, integers).view({1, 1, -1});
  const at::Tensor mixed_head = mix((head_H11 * 0x9E3779B9 + mix(query_S1)).bitwise_and(kMask32));
  const at::Tensor row_key = mix(mixed_head.bitwise_xor(by_seed));
  const at::Tensor hash = mix((key_L * 0x9E3779B1).bitwise_and(kMask32).bitwise_xor(row_key));
  const auto threshold = static_cast<int64_t>(std::min(dropout * 4294967296.0, 4294967295.0));
  return hash.ge(threshold).to(options.dtype()) / (1.0 - dropout);
}

// Everything of one sequence that forward and backward both need, in the arithmetic type.
struct Sequence {
  at::Tensor q_SHD, k_LHD, v_LHE;  // key/value heads repeated to the query heads
  at::Tensor scores_HSL;           // scaled, -inf where not seen
  at::Tensor lse_HS;
  at::Tensor probabilities_HSL;
  at::Tensor factors_HSL;  // dropout, undefined without
};

at::Tensor flatten_tokens(const at::Tensor& x) {
  return x.dim() == 4 ? x.flatten(0, 1) : x;
}

Sequence make_sequence(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const SequenceRange& range,
    bool causal,
    double scale,
    double dropout,
    int64_t seed) {
  const at::ScalarType type = arithmetic_type(q);
  const int64_t group = q.size(-2) / k.size(-2);
  const int64_t queries = range.query_end - range.query_begin;
  const int64_t keys = range.key_end - range.key_begin;
  auto key_rows = [&](const at::Tensor& x) {
    return flatten_tokens(x).narrow(0, range.key_begin, keys).to(type).repeat_interleave(group, 1);
  };
  Sequence s;
  s.q_SHD = flatten_tokens(q).narrow(0, range.query_begin, queries).to(type);
  s.k_LHD = key_rows(k);
  s.v_LHE = key_rows(v);
  s.scores_HSL = at::einsum("shd,lhd->hsl", {s.q_SHD, s.k_LHD}) * scale;
  if (causal) {
    const auto integers = q.options().dtype(at::kLong);
    const at::Tensor last_S1 = (at::arange(queries, integers) + (keys - queries)).unsqueeze(1);
    const at::Tensor hidden_SL = at::arange(keys, integers).unsqueeze(0).gt(last_S1);
    s.scores_HSL = s.scores_HSL.masked_fill(hidden_SL, -std::numeric_limits<double>::infinity());
  }
  if (keys == 0) {
    s.lse_HS = at::zeros({q.size(-2), queries}, q.options().dtype(type)) -
               std::numeric_limits<double>::infinity();
  } else {
    s.lse_HS = at::logsumexp(s.scores_HSL, {-1});
  }
  const at::Tensor finite_lse = s.lse_HS.masked_fill(s.lse_HS.isinf(), 0).unsqueeze(-1);
  s.probabilities_HSL = (s.scores_HSL - finite_lse).exp();
  if (dropout > 0) {
    s.factors_HSL = dropout_factors(q.size(-2), range, dropout, seed, q.options().dtype(type));
  }
  return s;
}

at::Tensor dropped(const Sequence& s) {
  return s.factors_HSL.defined() ? s.probabilities_HSL * s.factors_HSL : s.probabilities_HSL;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> flash_attention_forward(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const std::optional<at::Tensor>& cu_seqlens_q,
    const std::optional<at::Tensor>& cu_seqlens_k,
    bool causal,
    double scale,
    double dropout,
    int64_t seed) {
  check_flash_attention(q, k, v, cu_seqlens_q, cu_seqlens_k, dropout);
  std::vector<int64_t> out_sizes = q.sizes().vec();
  out_sizes.back() = v.size(-1);
  at::Tensor out = at::empty(out_sizes, q.options());
  at::Tensor out_tokens = flatten_tokens(out);
  const int64_t tokens = out_tokens.size(0);
  at::Tensor lse_HT = at::empty({q.size(-2), tokens}, q.options().dtype(arithmetic_type(q)));
  for (const SequenceRange& range : attention_sequences(q, k, cu_seqlens_q, cu_seqlens_k)) {
    const Sequence s = make_sequence(q, k, v, range, causal, scale, dropout, seed);
    const int64_t queries = range.query_end - range.query_begin;
    out_tokens.narrow(0, range.query_begin, queries)
        .copy_(at::einsum("hsl,lhe->she", {dropped(s), s.v_LHE}));
    lse_HT.narrow(1, range.query_begin, queries).copy_(s.lse_HS);
  }
  if (cu_seqlens_q) return {out, lse_HT};
  return {out, lse_HT.view({q.size(-2), q.size(0), q.size(1)}).transpose(0, 1).contiguous()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_attention_backward(
    const at::Tensor& grad_out,
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const at::Tensor& out,
    const at::Tensor& /*log_sum_exp*/,
    const std::optional<at::Tensor>& cu_seqlens_q,
    const std::optional<at::Tensor>& cu_seqlens_k,
    bool causal,
    double scale,
    double dropout,
    int64_t seed) {
  const at::ScalarType type = arithmetic_type(q);
  at::Tensor grad_q = at::empty(q.sizes(), q.options());
  at::Tensor grad_k = at::empty(k.sizes(), k.options());
  at::Tensor grad_v = at::empty(v.sizes(), v.options());
  for (const SequenceRange& range : attention_sequences(q, k, cu_seqlens_q, cu_seqlens_k)) {
    const Sequence s = make_sequence(q, k, v, range, causal, scale, dropout, seed);
    const int64_t queries = range.query_end - range.query_begin;
    const int64_t keys = range.key_end - range.key_begin;
    auto query_rows = [&](const at::Tensor& x) {
      return flatten_tokens(x).narrow(0, range.query_begin, queries);
    };
    auto key_rows = [&](const at::Tensor& x) {
      return flatten_tokens(x).narrow(0, range.key_begin, keys);
    };
    auto sum_groups = [&](const at::Tensor& x) {
      return x.view({keys, k.size(-2), q.size(-2) / k.size(-2), x.size(-1)}).sum(2);
    };
    const at::Tensor grad_SHE = query_rows(grad_out).to(type);
    const at::Tensor delta_HS1 = (grad_SHE * query_rows(out).to(type)).sum(-1).t().unsqueeze(-1);
    at::Tensor grad_p = at::einsum("she,lhe->hsl", {grad_SHE, s.v_LHE});
    if (s.factors_HSL.defined()) grad_p = grad_p * s.factors_HSL;
    const at::Tensor grad_scores = s.probabilities_HSL * (grad_p - delta_HS1) * scale;
    query_rows(grad_q).copy_(at::einsum("hsl,lhd->shd", {grad_scores, s.k_LHD}));
    key_rows(grad_k).copy_(
        sum_groups(at::einsum("hsl,shd->lhd", {grad_scores, s.q_SHD}).contiguous()));
    key_rows(grad_v).copy_(
        sum_groups(at::einsum("hsl,she->lhe", {dropped(s), grad_SHE}).contiguous()));
  }
  return {grad_q, grad_k, grad_v};
}

}  // namespace mindspeed::ops::reference
