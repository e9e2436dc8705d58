// SPDX-License-Identifier: Apache-2.0
// Attention in plain ATen, a sequence at a time with its whole score matrix: what the kernels are
// checked against, and what runs on devices without a kernel. Shape letters: S queries, L keys, H
// query heads, K key/value heads.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>

#include <limits>

#include "ops/flash_attention/attention_settings.h"
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
  at::Tensor scores_HSL;           // after soft-cap and ALiBi, -inf where not seen
  at::Tensor bend_HSL;             // tanh(s / cap), undefined without soft-cap
  at::Tensor factors_HSL;          // dropout, undefined without
};

at::Tensor flatten_tokens(const at::Tensor& x) {
  return x.dim() == 4 ? x.flatten(0, 1) : x;
}

// [S, L]: place of the query among the keys, minus place of the key.
at::Tensor distances(int64_t queries, int64_t keys, const at::TensorOptions& options) {
  const auto integers = options.dtype(at::kLong);
  return (at::arange(queries, integers) + (keys - queries)).unsqueeze(1) -
         at::arange(keys, integers).unsqueeze(0);
}

Sequence make_sequence(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const SequenceRange& range,
    const AttentionSettings& settings) {
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
  s.scores_HSL = at::einsum("shd,lhd->hsl", {s.q_SHD, s.k_LHD}) * settings.scale_of(q);
  if (settings.softcap > 0) {
    s.bend_HSL = (s.scores_HSL / settings.softcap).tanh();
    s.scores_HSL = s.bend_HSL * settings.softcap;
  }
  const at::Tensor distance_SL = distances(queries, keys, q.options());
  if (settings.alibi_slopes) {
    const at::Tensor slopes_H11 = settings.alibi_slopes->to(type).view({-1, 1, 1});
    s.scores_HSL = s.scores_HSL - slopes_H11 * distance_SL.abs().to(type);
  }
  const double infinity = std::numeric_limits<double>::infinity();
  if (settings.window_left >= 0) {
    s.scores_HSL = s.scores_HSL.masked_fill(distance_SL.gt(settings.window_left), -infinity);
  }
  if (settings.right_bound() >= 0) {
    s.scores_HSL = s.scores_HSL.masked_fill(distance_SL.lt(-settings.right_bound()), -infinity);
  }
  if (settings.dropout > 0) {
    s.factors_HSL = dropout_factors(
        q.size(-2), range, settings.dropout, settings.seed, q.options().dtype(type));
  }
  return s;
}

// [H, S]; -inf for a query that sees neither key nor sink.
at::Tensor log_sum_exp(const Sequence& s, const AttentionSettings& settings) {
  const int64_t heads = s.scores_HSL.size(0), queries = s.scores_HSL.size(1);
  // one column of -inf where there is no sink: a sum over no key at all is refused by logsumexp
  const at::Tensor sinks_HS1 = settings.sinks
                                   ? settings.sinks->view({-1, 1, 1}).expand({heads, queries, 1})
                                   : at::full(
                                         {heads, queries, 1},
                                         -std::numeric_limits<double>::infinity(),
                                         s.scores_HSL.options());
  return at::logsumexp(at::cat({s.scores_HSL, sinks_HS1}, -1), {-1});
}

at::Tensor probabilities(const Sequence& s, const at::Tensor& lse_HS) {
  return (s.scores_HSL - lse_HS.masked_fill(lse_HS.isinf(), 0).unsqueeze(-1)).exp();
}

at::Tensor dropped(const Sequence& s, const at::Tensor& probabilities_HSL) {
  return s.factors_HSL.defined() ? probabilities_HSL * s.factors_HSL : probabilities_HSL;
}

// [B, H, S] or [H, T] as [H, tokens], and back.
at::Tensor flatten_lse(const at::Tensor& lse) {
  return lse.dim() == 3 ? lse.transpose(0, 1).flatten(1, 2) : lse;
}

at::Tensor lse_of_shape(const at::Tensor& lse_HT, const at::Tensor& q, bool packed) {
  if (packed) return lse_HT;
  return lse_HT.view({q.size(-2), q.size(0), q.size(1)}).transpose(0, 1).contiguous();
}

}  // namespace

AttentionOutputs flash_attention_forward(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const AttentionSettings& settings) {
  check_flash_attention(q, k, v, settings);
  std::vector<int64_t> out_sizes = q.sizes().vec();
  out_sizes.back() = v.size(-1);
  at::Tensor out = at::empty(out_sizes, q.options());
  at::Tensor out_tokens = flatten_tokens(out);
  at::Tensor lse_HT =
      at::empty({q.size(-2), out_tokens.size(0)}, q.options().dtype(arithmetic_type(q)));
  for (const SequenceRange& range : attention_sequences(q, k, settings)) {
    const Sequence s = make_sequence(q, k, v, range, settings);
    const at::Tensor lse_HS = log_sum_exp(s, settings);
    const int64_t queries = range.query_end - range.query_begin;
    out_tokens.narrow(0, range.query_begin, queries)
        .copy_(at::einsum("hsl,lhe->she", {dropped(s, probabilities(s, lse_HS)), s.v_LHE}));
    lse_HT.narrow(1, range.query_begin, queries).copy_(lse_HS);
  }
  return {out, lse_of_shape(lse_HT, q, settings.packed())};
}

AttentionGradients flash_attention_backward(
    const at::Tensor& grad_out,
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const at::Tensor& out,
    const at::Tensor& lse,
    const AttentionSettings& settings,
    const std::optional<at::Tensor>& grad_lse) {
  const at::ScalarType type = arithmetic_type(q);
  at::Tensor grad_q = at::empty(q.sizes(), q.options());
  at::Tensor grad_k = at::empty(k.sizes(), k.options());
  at::Tensor grad_v = at::empty(v.sizes(), v.options());
  for (const SequenceRange& range : attention_sequences(q, k, settings)) {
    const Sequence s = make_sequence(q, k, v, range, settings);
    const int64_t queries = range.query_end - range.query_begin;
    const int64_t keys = range.key_end - range.key_begin;
    auto query_rows = [&](const at::Tensor& x) {
      return flatten_tokens(x).narrow(0, range.query_begin, queries);
    };
    auto key_rows = [&](const at::Tensor& x) {
      return flatten_tokens(x).narrow(0, range.key_begin, keys);
    };
    auto of_queries = [&](const at::Tensor& x) {
      return flatten_lse(x).narrow(1, range.query_begin, queries);
    };
    auto sum_groups = [&](const at::Tensor& x) {
      return x.view({keys, k.size(-2), q.size(-2) / k.size(-2), x.size(-1)}).sum(2);
    };
    const at::Tensor probabilities_HSL = probabilities(s, of_queries(lse));
    const at::Tensor grad_SHE = query_rows(grad_out).to(type);
    at::Tensor delta_HS = (grad_SHE * query_rows(out).to(type)).sum(-1).t();
    if (grad_lse) delta_HS = delta_HS - of_queries(*grad_lse);
    const at::Tensor grad_p = dropped(s, at::einsum("she,lhe->hsl", {grad_SHE, s.v_LHE}));
    at::Tensor grad_scores = probabilities_HSL * (grad_p - delta_HS.unsqueeze(-1));
    if (s.bend_HSL.defined()) grad_scores = grad_scores * (1 - s.bend_HSL.square());
    grad_scores = grad_scores * settings.scale_of(q);
    query_rows(grad_q).copy_(at::einsum("hsl,lhd->shd", {grad_scores, s.k_LHD}));
    key_rows(grad_k).copy_(
        sum_groups(at::einsum("hsl,shd->lhd", {grad_scores, s.q_SHD}).contiguous()));
    key_rows(grad_v).copy_(sum_groups(
        at::einsum("hsl,she->lhe", {dropped(s, probabilities_HSL), grad_SHE}).contiguous()));
  }
  return {grad_q, grad_k, grad_v};
}

}  // namespace mindspeed::ops::reference
