// SPDX-License-Identifier: Apache-2.0
// All arguments of attention but queries, keys and values, and the dispatcher operators that take
// them. A new setting is a member here, a place in arguments(), and a word in the schema.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>
#include <type_traits>

namespace mindspeed::ops {

/// The members are the schema's arguments after the tensors, in its order; flash_attention.h says
/// what each does.
struct AttentionSettings {
  std::optional<at::Tensor> cu_seqlens_q;
  std::optional<at::Tensor> cu_seqlens_k;
  bool causal = false;
  std::optional<double> scale;
  double dropout = 0.0;
  int64_t seed = 0;
  std::optional<at::Tensor> alibi_slopes;
  std::optional<at::Tensor> sinks;
  int64_t window_left = -1;
  int64_t window_right = -1;
  double softcap = 0.0;

  /// References to all members, in order.
  template <class Self>
  static auto arguments(Self& self) {
    return std::tie(
        self.cu_seqlens_q,
        self.cu_seqlens_k,
        self.causal,
        self.scale,
        self.dropout,
        self.seed,
        self.alibi_slopes,
        self.sinks,
        self.window_left,
        self.window_right,
        self.softcap);
  }

  bool packed() const { return cu_seqlens_q.has_value(); }

  /// The given scale, or 1 / sqrt(head size).
  double scale_of(const at::Tensor& q) const;

  /// The window's right bound, negative for none; causal bounds it to 0.
  int64_t right_bound() const;
};

inline constexpr const char* kAttentionSettingsSchema =
    "Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, bool causal=False, float? scale=None, "
    "float dropout=0.0, int seed=0, Tensor? alibi_slopes=None, Tensor? sinks=None, "
    "int window_left=-1, int window_right=-1, float softcap=0.0";

using AttentionOutputs = std::tuple<at::Tensor, at::Tensor>;                // out, log-sum-exp
using AttentionGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;  // of q, k, v

/// The dispatcher operator mindspeed::flash_attention_forward.
AttentionOutputs flash_attention_forward(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const AttentionSettings& settings);

/// The dispatcher operator mindspeed::flash_attention_backward. log_sum_exp may be that of more
/// keys than these (ring attention); grad_log_sum_exp: none is zero.
AttentionGradients flash_attention_backward(
    const at::Tensor& grad_out,
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const at::Tensor& out,
    const at::Tensor& log_sum_exp,
    const AttentionSettings& settings,
    const std::optional<at::Tensor>& grad_log_sum_exp);

/// Raises ValueError unless shapes, dtypes and settings go together; called by every kernel of
/// forward, the fake one too.
void check_flash_attention(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const AttentionSettings& settings);

namespace reference {  // plain ATen on any device; builds each sequence's scores
AttentionOutputs flash_attention_forward(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const AttentionSettings& settings);
AttentionGradients flash_attention_backward(
    const at::Tensor& grad_out,
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const at::Tensor& out,
    const at::Tensor& log_sum_exp,
    const AttentionSettings& settings,
    const std::optional<at::Tensor>& grad_log_sum_exp);
}  // namespace reference

// The dispatcher passes the settings one by one: numbers by value, tensors by reference.
template <class Setting>
using SettingArgument =
    std::conditional_t<std::is_same_v<Setting, std::optional<at::Tensor>>, const Setting&, Setting>;

template <class References>
struct FlatArguments;

/// Signatures of the operators, and kernels of these signatures around functions that take
/// AttentionSettings.
template <class... Settings>
struct FlatArguments<std::tuple<const Settings&...>> {
  using Forward = AttentionOutputs(
      const at::Tensor&, const at::Tensor&, const at::Tensor&, SettingArgument<Settings>...);
  using Backward = AttentionGradients(
      const at::Tensor&,
      const at::Tensor&,
      const at::Tensor&,
      const at::Tensor&,
      const at::Tensor&,
      const at::Tensor&,
      SettingArgument<Settings>...,
      const std::optional<at::Tensor>&);

  template <auto implementation>
  static AttentionOutputs forward(
      const at::Tensor& q,
      const at::Tensor& k,
      const at::Tensor& v,
      SettingArgument<Settings>... settings) {
    return implementation(q, k, v, AttentionSettings{settings...});
  }

  template <auto implementation>
  static AttentionGradients backward(
      const at::Tensor& grad_out,
      const at::Tensor& q,
      const at::Tensor& k,
      const at::Tensor& v,
      const at::Tensor& out,
      const at::Tensor& log_sum_exp,
      SettingArgument<Settings>... settings,
      const std::optional<at::Tensor>& grad_log_sum_exp) {
    return implementation(
        grad_out, q, k, v, out, log_sum_exp, AttentionSettings{settings...}, grad_log_sum_exp);
  }
};

using AttentionKernel =
    FlatArguments<decltype(AttentionSettings::arguments(std::declval<const AttentionSettings&>()))>;

}  // namespace mindspeed::ops
