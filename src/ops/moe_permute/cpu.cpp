// SPDX-License-Identifier: Apache-2.0
// Tensors to the kernel's struct, rows over threads.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <torch/library.h>

#include <vector>

#include "ops/moe_permute/kernel.h"
#include "ops/moe_permute/moe_permute.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

// A counting sort: stable, and one pass over the slots.
at::Tensor sort_by_expert(const at::Tensor& experts, int64_t num_experts) {
  const at::Tensor dense = experts.contiguous();
  const int64_t* expert = dense.const_data_ptr<int64_t>();
  const int64_t num_slots = dense.numel();
  std::vector<int64_t> next(num_experts + 1, 0);
  for (int64_t slot = 0; slot < num_slots; ++slot) {
    TORCH_CHECK_VALUE(
        expert[slot] >= 0 && expert[slot] < num_experts,
        "moe_permute: experts must lie in [0, ",
        num_experts,
        "), got ",
        expert[slot],
        " for token ",
        slot / dense.size(1));
    ++next[expert[slot] + 1];
  }
  for (int64_t e = 0; e < num_experts; ++e) next[e + 1] += next[e];
  at::Tensor slots = at::empty({num_slots}, experts.options());
  int64_t* sorted = slots.mutable_data_ptr<int64_t>();
  for (int64_t slot = 0; slot < num_slots; ++slot) sorted[next[expert[slot]]++] = slot;
  return slots;
}

std::tuple<at::Tensor, at::Tensor> forward_cpu(
    const at::Tensor& x, const at::Tensor& experts, int64_t num_experts) {
  check_moe_permute(x, experts, num_experts);
  const at::Tensor slots = sort_by_expert(experts, num_experts);
  if (x.scalar_type() == at::kDouble) {
    return {x.index_select(0, slots.floor_divide(experts.size(1))), slots};
  }
  at::Tensor rows = at::empty({slots.size(0), x.size(1)}, x.options());
  const at::Tensor tokens = as_rows(x);
  MoeSpread args{};
  args.type = element_type(x);
  args.x = tokens.const_data_ptr();
  args.x_stride = tokens.stride(0);
  args.slots = slots.const_data_ptr<int64_t>();
  args.top_k = experts.size(1);
  args.size = x.size(1);
  args.rows = rows.mutable_data_ptr();
  for_rows(slots.size(0), args.size, [&](int64_t begin, int64_t end) {
    moe_spread_rows(args, begin, end);
  });
  return {rows, slots};
}

at::Tensor backward_cpu(const at::Tensor& grad_rows, const at::Tensor& slots, int64_t top_k) {
  if (grad_rows.scalar_type() == at::kDouble) {
    return reference::moe_permute_backward(grad_rows, slots, top_k);
  }
  at::Tensor grad_x = at::empty({slots.size(0) / top_k, grad_rows.size(1)}, grad_rows.options());
  const at::Tensor rows = as_rows(grad_rows);
  const at::Tensor places = inverse_of_slots("moe_permute", slots);
  MoeCombine args{};
  args.type = element_type(rows);
  args.rows = rows.const_data_ptr();
  args.rows_stride = rows.stride(0);
  args.places = places.const_data_ptr<int64_t>();
  args.top_k = top_k;
  args.size = grad_rows.size(1);
  args.x = grad_x.mutable_data_ptr();
  for_rows(grad_x.size(0), args.size * top_k, [&](int64_t begin, int64_t end) {
    moe_combine_rows(args, begin, end);
  });
  return grad_x;
}

}  // namespace

at::Tensor inverse_of_slots(const char* op, const at::Tensor& slots) {
  const at::Tensor dense = slots.contiguous();
  const int64_t* slot = dense.const_data_ptr<int64_t>();
  const int64_t num_slots = dense.numel();
  at::Tensor places = at::full({num_slots}, -1, dense.options());
  int64_t* place = places.mutable_data_ptr<int64_t>();
  for (int64_t p = 0; p < num_slots; ++p) {
    TORCH_CHECK_VALUE(
        slot[p] >= 0 && slot[p] < num_slots && place[slot[p]] < 0,
        op,
        ": slots must hold each of 0 .. ",
        num_slots - 1,
        " once, got ",
        slot[p],
        " at place ",
        p);
    place[slot[p]] = p;
  }
  return places;
}

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("moe_permute", forward_cpu);
  m.impl("moe_permute_backward", backward_cpu);
}

}  // namespace mindspeed::ops
