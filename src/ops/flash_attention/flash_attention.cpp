// SPDX-License-Identifier: Apache-2.0
// Checks, schemas, fakes and autograd; the kernels are in reference.cpp and cpu.cpp.
#include "ops/flash_attention/flash_attention.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <string>

#include "ops/flash_attention/attention_settings.h"
#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

void check_shapes(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const AttentionSettings& settings) {
  const int64_t dims = settings.packed() ? 3 : 4;
  TORCH_CHECK_VALUE(
      q.dim() == dims && k.dim() == dims && v.dim() == dims,
      "flash_attention: q, k and v must be ",
      settings.packed() ? "[tokens, heads, size] with cu_seqlens"
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
  if (!settings.packed()) leading_match = leading_match && k.sym_size(0) == q.sym_size(0);
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
}

void check_bounds(const AttentionSettings& settings) {
  TORCH_CHECK_VALUE(
      settings.cu_seqlens_q.has_value() == settings.cu_seqlens_k.has_value(),
      "flash_attention: cu_seqlens_q and cu_seqlens_k must be given together");
  if (!settings.packed()) return;
  for (const auto* bounds : {&*settings.cu_seqlens_q, &*settings.cu_seqlens_k}) {
    TORCH_CHECK_VALUE(
        bounds->dim() == 1 && bounds->scalar_type() == at::kInt && bounds->sym_size(0) >= 1 &&
            bounds->sym_size(0) == settings.cu_seqlens_q->sym_size(0),
        "flash_attention: cu_seqlens must be int32 of one dim with documents + 1 elements, the "
        "same number for q and k");
  }
}

void check_head_numbers(
    const char* name, const OptionalTensor& numbers, at::ScalarType type, const at::Tensor& q) {
  if (!numbers) return;
  TORCH_CHECK_VALUE(
      numbers->dim() == 1 && numbers->sym_size(0) == q.sym_size(-2),
      "flash_attention: ",
      name,
      " must have shape [",
      q.sym_size(-2),
      "], one a query head, got ",
      numbers->sym_sizes());
  TORCH_CHECK_VALUE(
      numbers->scalar_type() == type,
      "flash_attention: ",
      name,
      " must be ",
      type,
      " with q of ",
      q.scalar_type(),
      ", got ",
      numbers->scalar_type());
  TORCH_CHECK_VALUE(
      numbers->device() == q.device(),
      "flash_attention: ",
      name,
      " must be on the device of q (",
      q.device(),
      "), got ",
      numbers->device());
}

void check_numbers(const AttentionSettings& settings) {
  TORCH_CHECK_VALUE(
      settings.dropout >= 0 && settings.dropout < 1,
      "flash_attention: dropout must be in [0, 1), got ",
      settings.dropout);
  TORCH_CHECK_VALUE(
      settings.window_left >= -1 && settings.window_right >= -1,
      "flash_attention: window bounds must be at least 0, or -1 for none, got (",
      settings.window_left,
      ", ",
      settings.window_right,
      ")");
  TORCH_CHECK_VALUE(
      settings.softcap >= 0 && std::isfinite(settings.softcap),
      "flash_attention: softcap must be positive, or 0 for none, got ",
      settings.softcap);
}

}  // namespace

double AttentionSettings::scale_of(const at::Tensor& q) const {
  return scale ? *scale : 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
}

int64_t AttentionSettings::right_bound() const {
  return causal ? 0 : window_right;
}

void check_flash_attention(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const AttentionSettings& settings) {
  check_float("flash_attention", "q", q);
  TORCH_CHECK_VALUE(
      k.scalar_type() == q.scalar_type() && v.scalar_type() == q.scalar_type(),
      "flash_attention: q, k and v must have one dtype, got ",
      q.scalar_type(),
      ", ",
      k.scalar_type(),
      " and ",
      v.scalar_type());
  check_bounds(settings);
  check_shapes(q, k, v, settings);
  check_head_numbers("alibi_slopes", settings.alibi_slopes, at::kFloat, q);
  check_head_numbers("sinks", settings.sinks, arithmetic_type(q), q);
  check_numbers(settings);
}

namespace {

AttentionOutputs forward_fake(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const AttentionSettings& settings) {
  check_flash_attention(q, k, v, settings);
  std::vector<c10::SymInt> out_sizes = q.sym_sizes().vec();
  out_sizes.back() = v.sym_size(-1);
  std::vector<c10::SymInt> lse_sizes;
  if (!settings.packed()) lse_sizes.push_back(q.sym_size(0));
  lse_sizes.push_back(q.sym_size(-2));
  lse_sizes.push_back(q.sym_size(-3));
  return {
      at::empty_symint(out_sizes, q.options()),
      at::empty_symint(lse_sizes, q.options().dtype(arithmetic_type(q)))};
}

AttentionGradients backward_fake(
    const at::Tensor& /*grad_out*/,
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const at::Tensor& /*out*/,
    const at::Tensor& /*log_sum_exp*/,
    const AttentionSettings& /*settings*/,
    const OptionalTensor& /*grad_log_sum_exp*/) {
  return {
      at::empty_symint(q.sym_sizes(), q.options()),
      at::empty_symint(k.sym_sizes(), k.options()),
      at::empty_symint(v.sym_sizes(), v.options())};
}

// What autograd keeps of the settings: tensors as saved variables after the first ones, numbers as
// values.
struct SavedSettings {
  static void save(
      const AttentionSettings& settings,
      variable_list& tensors,
      std::vector<c10::IValue>& numbers) {
    auto save_one = [&](const auto& setting) {
      if constexpr (std::is_same_v<std::decay_t<decltype(setting)>, OptionalTensor>) {
        tensors.push_back(setting.value_or(at::Tensor()));
      } else {
        numbers.emplace_back(setting);
      }
    };
    std::apply([&](const auto&... all) { (save_one(all), ...); }, settings.arguments(settings));
  }

  static AttentionSettings load(
      const variable_list& tensors, size_t tensor, const std::vector<c10::IValue>& numbers) {
    AttentionSettings settings;
    size_t number = 0;
    auto load_one = [&](auto& setting) {
      using Setting = std::decay_t<decltype(setting)>;
      if constexpr (std::is_same_v<Setting, OptionalTensor>) {
        const at::Tensor& saved = tensors[tensor++];
        if (saved.defined()) setting = saved;
      } else {
        setting = numbers[number++].to<Setting>();
      }
    };
    std::apply([&](auto&... all) { (load_one(all), ...); }, settings.arguments(settings));
    return settings;
  }
};

// sum over the last dim, in an order that does not depend on the number of threads: torch splits
// one long sum among them, but not a sum to many numbers.
at::Tensor sum_last(const at::Tensor& x) {
  constexpr int64_t kBlock = 1024;
  const c10::SymInt padding = (kBlock - x.sym_size(-1) % kBlock) % kBlock;
  const at::Tensor padded = at::constant_pad_nd_symint(x, {0, padding});
  return padded.unflatten(-1, {-1, kBlock}).sum(-1).sum(-1);
}

// The sink feels out and log_sum_exp through the softmax's denominator alone: with its share
// e^(sink
// - lse), d out = -share * out and d lse = share.
at::Tensor sinks_gradient(
    const at::Tensor& grad_out,
    const at::Tensor& grad_lse,
    const at::Tensor& out,
    const at::Tensor& lse,
    const at::Tensor& sinks) {
  const at::Tensor share = (sinks.unsqueeze(-1) - lse).exp();  // [B, H, S] or [H, T]
  at::Tensor grad = -(grad_out.to(lse.dtype()) * out.to(lse.dtype())).sum(-1).transpose(-1, -2);
  if (grad_lse.defined()) grad = grad + grad_lse;
  const at::Tensor by_sequence = sum_last(share * grad);
  return by_sequence.dim() == 2 ? by_sequence.sum(0) : by_sequence;
}

class FlashAttention : public torch::autograd::Function<FlashAttention> {
 public:
  // sinks stands apart for autograd to see it; settings holds it too.
  static variable_list forward(
      AutogradContext* context,
      const at::Tensor& q,
      const at::Tensor& k,
      const at::Tensor& v,
      const OptionalTensor& /*sinks*/,
      const AttentionSettings& settings) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [out, lse] = flash_attention_forward(q, k, v, settings);
    variable_list tensors{q, k, v, out, lse};
    std::vector<c10::IValue> numbers;
    SavedSettings::save(settings, tensors, numbers);
    context->save_for_backward(tensors);
    context->saved_data["settings"] = c10::ivalue::Tuple::create(std::move(numbers));
    context->set_materialize_grads(false);
    return {out, lse};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    variable_list gradients(5);
    if (!grads[0].defined() && !grads[1].defined()) return gradients;
    const variable_list saved = context->get_saved_variables();
    const auto &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &lse = saved[4];
    const AttentionSettings settings = SavedSettings::load(
        saved, 5, context->saved_data["settings"].toTupleRef().elements().vec());
    const at::Tensor grad_out =
        grads[0].defined() ? grads[0] : at::zeros_symint(out.sym_sizes(), out.options());
    const OptionalTensor grad_lse = grads[1].defined() ? OptionalTensor(grads[1]) : std::nullopt;
    std::tie(gradients[0], gradients[1], gradients[2]) =
        flash_attention_backward(grad_out, q, k, v, out, lse, settings, grad_lse);
    if (settings.sinks && context->needs_input_grad(3)) {
      gradients[3] = sinks_gradient(grad_out, grads[1], out, lse, *settings.sinks);
    }
    return gradients;
  }
};

AttentionOutputs with_autograd(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const AttentionSettings& settings) {
  TORCH_CHECK_VALUE(
      !(settings.alibi_slopes && settings.alibi_slopes->requires_grad()),
      "flash_attention: alibi_slopes must not require gradients; pass alibi_slopes.detach()");
  auto outputs = FlashAttention::apply(q, k, v, settings.sinks, settings);
  return {outputs[0], outputs[1]};
}

}  // namespace

AttentionOutputs flash_attention(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const OptionalTensor& cu_seqlens_q,
    const OptionalTensor& cu_seqlens_k,
    bool causal,
    std::optional<double> scale,
    double dropout,
    int64_t seed,
    const OptionalTensor& alibi_slopes,
    const OptionalTensor& sinks,
    int64_t window_left,
    int64_t window_right,
    double softcap) {
  static const auto op = operator_handle<AttentionKernel::Forward>("mindspeed::flash_attention");
  return op.call(
      q,
      k,
      v,
      cu_seqlens_q,
      cu_seqlens_k,
      causal,
      scale,
      dropout,
      seed,
      alibi_slopes,
      sinks,
      window_left,
      window_right,
      softcap);
}

AttentionOutputs flash_attention_forward(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const AttentionSettings& settings) {
  static const auto op =
      operator_handle<AttentionKernel::Forward>("mindspeed::flash_attention_forward");
  return std::apply(
      [&](const auto&... all) { return op.call(q, k, v, all...); }, settings.arguments(settings));
}

AttentionGradients flash_attention_backward(
    const at::Tensor& grad_out,
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const at::Tensor& out,
    const at::Tensor& log_sum_exp,
    const AttentionSettings& settings,
    const OptionalTensor& grad_log_sum_exp) {
  static const auto op =
      operator_handle<AttentionKernel::Backward>("mindspeed::flash_attention_backward");
  return std::apply(
      [&](const auto&... all) {
        return op.call(grad_out, q, k, v, out, log_sum_exp, all..., grad_log_sum_exp);
      },
      settings.arguments(settings));
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  const std::string settings = kAttentionSettingsSchema;
  const std::string inputs = "(Tensor q, Tensor k, Tensor v, " + settings + ")";
  const std::string outputs = " -> (Tensor out, Tensor log_sum_exp)";
  m.def(("flash_attention" + inputs + outputs).c_str());
  m.def(("flash_attention_forward" + inputs + outputs).c_str());
  m.def(("flash_attention_backward(Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor out, "
         "Tensor log_sum_exp, " +
         settings +
         ", Tensor? grad_log_sum_exp=None) -> (Tensor grad_q, Tensor grad_k, Tensor grad_v)")
            .c_str());
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("flash_attention", AttentionKernel::forward<flash_attention_forward>);
  m.impl("flash_attention_forward", AttentionKernel::forward<reference::flash_attention_forward>);
  m.impl(
      "flash_attention_backward", AttentionKernel::backward<reference::flash_attention_backward>);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("flash_attention_forward", AttentionKernel::forward<forward_fake>);
  m.impl("flash_attention_backward", AttentionKernel::backward<backward_fake>);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("flash_attention", AttentionKernel::forward<with_autograd>);
  m.impl("flash_attention_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("flash_attention_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace mindspeed::ops
