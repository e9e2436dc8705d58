// SPDX-License-Identifier: Apache-2.0
// Shape letters: B batch, S sequence, T tokens, H heads, D head size, P positions, R rotated
// elements.
#include "ops/rotary_embedding/rotary_embedding.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/operator_handle.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

void check_positions(const at::Tensor& x, const at::Tensor& positions) {
  TORCH_CHECK_VALUE(
      positions.scalar_type() == at::kInt || positions.scalar_type() == at::kLong,
      "rotary_embedding: positions must be int32 or int64, got ",
      positions.scalar_type());
  const auto tokens = x.sym_sizes().slice(0, x.dim() - 2);
  const bool one_a_token =
      positions.sym_sizes().equals(tokens) ||
      (positions.dim() == 1 &&
       positions.sym_numel() == x.sym_numel() / (x.sym_size(-1) * x.sym_size(-2)));
  TORCH_CHECK_VALUE(
      one_a_token,
      "rotary_embedding: positions must hold one number a token, shape ",
      tokens,
      " or flat, got ",
      positions.sym_sizes());
  TORCH_CHECK_VALUE(
      positions.device() == x.device(),
      "rotary_embedding: positions must be on the device of x (",
      x.device(),
      "), got ",
      positions.device());
}

}  // namespace

void check_rotary_embedding(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions) {
  check_float("rotary_embedding", "x", x);
  TORCH_CHECK_VALUE(
      (x.dim() == 3 || x.dim() == 4) && x.sym_size(-1) > 0 && x.sym_size(-2) > 0,
      "rotary_embedding: x must have shape [B, S, H, D] or [T, H, D] with H and D at least 1, got ",
      x.sym_sizes());
  check_same("rotary_embedding", "cos", cos, "sin", sin);
  TORCH_CHECK_VALUE(
      cos.scalar_type() == arithmetic_type(x) && cos.device() == x.device(),
      "rotary_embedding: cos and sin must be ",
      arithmetic_type(x),
      " on ",
      x.device(),
      ", got ",
      cos.scalar_type(),
      " on ",
      cos.device());
  TORCH_CHECK_VALUE(
      cos.dim() == 2 && 2 * cos.sym_size(1) <= x.sym_size(-1),
      "rotary_embedding: cos and sin must have shape [P, R/2] with R at most the head size (",
      x.sym_size(-1),
      "), got ",
      cos.sym_sizes());
  if (positions) {
    check_positions(x, *positions);
  } else {
    TORCH_CHECK_VALUE(
        cos.sym_size(0) >= x.sym_size(-3),
        "rotary_embedding: cos and sin must have a row for each of the sequence's ",
        x.sym_size(-3),
        " places, got ",
        cos.sym_size(0),
        "; make longer tables or pass positions");
  }
}

void check_rotary_embedding_in_place(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions) {
  check_rotary_embedding(x, cos, sin, positions);
  TORCH_CHECK_VALUE(
      at::has_internal_overlap(x) != at::MemOverlap::Yes,
      "rotary_embedding_: x must have each element in a place of its own, got strides ",
      x.strides(),
      " for shape ",
      x.sizes(),
      "; use rotary_embedding, or clone() x");
}

namespace {

at::Tensor forward_fake(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool /*interleaved*/) {
  check_rotary_embedding(x, cos, sin, positions);
  return at::empty_symint(x.sym_sizes(), x.options());
}

at::Tensor reference_forward(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool interleaved) {
  return reference::rotary_embedding(x, cos, sin, positions, interleaved, /*inverse=*/false);
}

at::Tensor reference_backward(
    const at::Tensor& grad,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool interleaved) {
  return reference::rotary_embedding(grad, cos, sin, positions, interleaved, /*inverse=*/true);
}

void check_tables_have_no_gradient(const at::Tensor& cos, const at::Tensor& sin) {
  TORCH_CHECK_VALUE(
      !cos.requires_grad() && !sin.requires_grad(),
      "rotary_embedding: cos and sin must not require gradients, got tables that do; "
      "detach() them");
}

class RotaryEmbeddingFunction : public torch::autograd::Function<RotaryEmbeddingFunction> {
 public:
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& cos,
      const at::Tensor& sin,
      const std::optional<at::Tensor>& positions,
      bool interleaved) {
    check_tables_have_no_gradient(cos, sin);
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({cos, sin, positions.value_or(at::Tensor())});
    context->saved_data["interleaved"] = interleaved;
    return rotary_embedding(x, cos, sin, positions, interleaved);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const auto positions = saved[2].defined() ? std::optional(saved[2]) : std::nullopt;
    at::Tensor grad_x = rotary_embedding_backward(
        grads[0], saved[0], saved[1], positions, context->saved_data["interleaved"].toBool());
    return {grad_x, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

void in_place_fake(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool /*interleaved*/) {
  check_rotary_embedding(x, cos, sin, positions);
}

void in_place_reference(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool interleaved) {
  check_rotary_embedding_in_place(x, cos, sin, positions);
  x.copy_(reference::rotary_embedding(x, cos, sin, positions, interleaved, /*inverse=*/false));
}

class RotaryEmbeddingInPlace : public torch::autograd::Function<RotaryEmbeddingInPlace> {
 public:
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& cos,
      const at::Tensor& sin,
      const std::optional<at::Tensor>& positions,
      bool interleaved) {
    check_tables_have_no_gradient(cos, sin);
    at::AutoDispatchBelowADInplaceOrView below;
    rotary_embedding_(x, cos, sin, positions, interleaved);
    context->mark_dirty({x});
    context->save_for_backward({cos, sin, positions.value_or(at::Tensor())});
    context->saved_data["interleaved"] = interleaved;
    return x;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list grads) {
    return RotaryEmbeddingFunction::backward(context, std::move(grads));
  }
};

void in_place_with_autograd(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool interleaved) {
  TORCH_CHECK_VALUE(
      !(at::GradMode::is_enabled() && x.requires_grad() && x.is_leaf()),
      "rotary_embedding_: x must not be a leaf that requires a gradient, got one; use "
      "rotary_embedding");
  RotaryEmbeddingInPlace::apply(x, cos, sin, positions, interleaved);
}

at::Tensor with_autograd(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool interleaved) {
  return RotaryEmbeddingFunction::apply(x, cos, sin, positions, interleaved);
}

}  // namespace

namespace reference {

at::Tensor rotary_embedding(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool interleaved,
    bool inverse) {
  check_rotary_embedding(x, cos, sin, positions);
  const int64_t half = cos.size(1);
  const auto rows = [&](const at::Tensor& table) {  // [..., 1, R/2], one row a token
    if (!positions) return table.slice(0, 0, x.size(-3)).unsqueeze(-2);
    std::vector<int64_t> shape(x.sizes().begin(), x.sizes().end() - 2);
    shape.insert(shape.end(), {1, half});
    return table.index_select(0, positions->reshape({-1})).view(shape);
  };
  const at::Tensor cos_rows = rows(cos);
  const at::Tensor sin_rows = inverse ? -rows(sin) : rows(sin);
  const at::Tensor wide = x.to(cos.scalar_type());
  const at::Tensor rotated = wide.slice(-1, 0, 2 * half);
  const at::Tensor pairs = interleaved ? rotated.unflatten(-1, {half, 2})
                                       : rotated.unflatten(-1, {2, half}).transpose(-1, -2);
  const at::Tensor first = pairs.select(-1, 0);
  const at::Tensor second = pairs.select(-1, 1);
  const std::vector<at::Tensor> turned{
      first * cos_rows - second * sin_rows, second * cos_rows + first * sin_rows};
  const at::Tensor merged = interleaved ? at::stack(turned, -1).flatten(-2) : at::cat(turned, -1);
  return at::cat({merged, wide.slice(-1, 2 * half)}, -1).to(x.scalar_type()).contiguous();
}

}  // namespace reference

at::Tensor rotary_embedding(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool interleaved) {
  static const auto op = operator_handle<decltype(rotary_embedding)>("mindspeed::rotary_embedding");
  return op.call(x, cos, sin, positions, interleaved);
}

void rotary_embedding_(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool interleaved) {
  static const auto op =
      operator_handle<decltype(rotary_embedding_)>("mindspeed::rotary_embedding_");
  op.call(x, cos, sin, positions, interleaved);
}

at::Tensor rotary_embedding_backward(
    const at::Tensor& grad,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool interleaved) {
  static const auto op =
      operator_handle<decltype(rotary_embedding_backward)>("mindspeed::rotary_embedding_backward");
  return op.call(grad, cos, sin, positions, interleaved);
}

TORCH_LIBRARY_FRAGMENT(mindspeed, m) {
  m.def(
      "rotary_embedding(Tensor x, Tensor cos, Tensor sin, Tensor? positions=None,"
      " bool interleaved=False) -> Tensor");
  m.def(
      "rotary_embedding_backward(Tensor grad, Tensor cos, Tensor sin, Tensor? positions,"
      " bool interleaved) -> Tensor");
  m.def(
      "rotary_embedding_(Tensor(a!) x, Tensor cos, Tensor sin, Tensor? positions=None,"
      " bool interleaved=False) -> ()");
}

TORCH_LIBRARY_IMPL(mindspeed, CompositeExplicitAutograd, m) {
  m.impl("rotary_embedding", reference_forward);
  m.impl("rotary_embedding_backward", reference_backward);
  m.impl("rotary_embedding_", in_place_reference);
}

TORCH_LIBRARY_IMPL(mindspeed, Meta, m) {
  m.impl("rotary_embedding", forward_fake);
  m.impl("rotary_embedding_backward", forward_fake);
  m.impl("rotary_embedding_", in_place_fake);
}

TORCH_LIBRARY_IMPL(mindspeed, Autograd, m) {
  m.impl("rotary_embedding", with_autograd);
  m.impl("rotary_embedding_backward", torch::autograd::autogradNotImplementedFallback());
  m.impl("rotary_embedding_", in_place_with_autograd);
}

}  // namespace mindspeed::ops
