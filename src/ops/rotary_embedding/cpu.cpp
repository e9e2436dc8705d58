// SPDX-License-Identifier: Apache-2.0
// Tensors to the kernel's struct, tokens over threads.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/rotary_embedding/kernel.h"
#include "ops/rotary_embedding/rotary_embedding.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

// int32 and dense, each value a row of the tables: the kernel reads without looking.
at::Tensor checked_positions(const at::Tensor& positions, int64_t num_rows) {
  const at::Tensor wide = positions.contiguous();
  if (wide.numel() > 0) {
    const int64_t low = wide.min().item<int64_t>();
    const int64_t high = wide.max().item<int64_t>();
    TORCH_CHECK_VALUE(
        low >= 0 && high < num_rows,
        "rotary_embedding: positions must lie in [0, ",
        num_rows,
        "), the rows of cos and sin, got ",
        low < 0 ? low : high);
  }
  return wide.to(at::kInt);
}

bool has_unit_rows(const at::Tensor& x) {
  return x.stride(-1) == 1 || x.size(-1) == 1;
}

// x and out have unit rows and may be the same.
void rotate_into(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool interleaved,
    bool inverse,
    const at::Tensor& out) {
  if (x.numel() == 0) return;
  const bool batched = x.dim() == 4;
  const at::Tensor cos_rows = cos.contiguous();
  const at::Tensor sin_rows = sin.contiguous();
  const at::Tensor rows = positions ? checked_positions(*positions, cos.size(0)) : at::Tensor();
  RotaryEmbedding args{};
  args.type = element_type(x);
  args.x = x.const_data_ptr();
  args.batch_stride = batched ? x.stride(0) : 0;
  args.token_stride = x.stride(-3);
  args.head_stride = x.stride(-2);
  args.sequence = x.size(-3);
  args.num_heads = x.size(-2);
  args.size = x.size(-1);
  args.cos = cos_rows.const_data_ptr<float>();
  args.sin = sin_rows.const_data_ptr<float>();
  args.positions = positions ? rows.const_data_ptr<int32_t>() : nullptr;
  args.num_pairs = cos.size(1);
  args.interleaved = interleaved;
  args.inverse = inverse;
  args.out = out.mutable_data_ptr();
  args.out_batch_stride = batched ? out.stride(0) : 0;
  args.out_token_stride = out.stride(-3);
  args.out_head_stride = out.stride(-2);
  const int64_t token_size = args.num_heads * args.size;
  for_rows(x.numel() / token_size, token_size, [&](int64_t begin, int64_t end) {
    rotary_embedding_tokens(args, begin, end);
  });
}

at::Tensor rotate(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool interleaved,
    bool inverse) {
  if (x.scalar_type() == at::kDouble) {
    return reference::rotary_embedding(x, cos, sin, positions, interleaved, inverse);
  }
  check_rotary_embedding(x, cos, sin, positions);
  at::Tensor out = at::empty(x.sizes(), x.options());
  const at::Tensor dense = has_unit_rows(x) ? x : x.contiguous();
  rotate_into(dense, cos, sin, positions, interleaved, inverse, out);
  return out;
}

at::Tensor forward_cpu(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool interleaved) {
  return rotate(x, cos, sin, positions, interleaved, /*inverse=*/false);
}

at::Tensor backward_cpu(
    const at::Tensor& grad,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool interleaved) {
  return rotate(grad, cos, sin, positions, interleaved, /*inverse=*/true);
}

void in_place_cpu(
    const at::Tensor& x,
    const at::Tensor& cos,
    const at::Tensor& sin,
    const std::optional<at::Tensor>& positions,
    bool interleaved) {
  check_rotary_embedding_in_place(x, cos, sin, positions);
  if (x.scalar_type() == at::kDouble || !has_unit_rows(x)) {
    x.copy_(rotate(x, cos, sin, positions, interleaved, /*inverse=*/false));
  } else {
    rotate_into(x, cos, sin, positions, interleaved, /*inverse=*/false, x);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("rotary_embedding", forward_cpu);
  m.impl("rotary_embedding_backward", backward_cpu);
  m.impl("rotary_embedding_", in_place_cpu);
}

}  // namespace mindspeed::ops
