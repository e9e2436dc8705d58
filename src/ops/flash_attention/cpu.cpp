// SPDX-License-Identifier: Apache-2.0
// Tensors to the kernel's structs and tasks over threads. A task writes its own outputs only, so
// results do not depend on which thread runs it; tasks are taken from a counter because documents
// differ in length.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <hwy/aligned_allocator.h>
#include <algorithm>
#include <atomic>

#include "ops/flash_attention/flash_attention.h"
#include "ops/flash_attention/kernel.h"
#include "ops/flash_attention/sequences.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

using Bounds = std::optional<at::Tensor>;

// The same tensor with unit last stride; a copy only when it has none.
at::Tensor with_unit_stride(const at::Tensor& x) {
  return x.stride(-1) == 1 || x.size(-1) == 1 ? x : x.contiguous();
}

HeadArray head_array(const at::Tensor& x) {
  return {x.const_data_ptr(), x.stride(-3), x.stride(-2)};
}

AttentionShape shape_of(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    bool causal,
    double scale,
    double dropout,
    int64_t seed) {
  return {
      .type = element_type(q),
      .num_heads = q.size(-2),
      .num_key_value_heads = k.size(-2),
      .head_size = q.size(-1),
      .value_size = v.size(-1),
      .causal = causal,
      .scale = static_cast<float>(scale),
      .dropout = static_cast<float>(dropout),
      .seed = static_cast<uint64_t>(seed)};
}

// Elements from the tensor's start to flattened token `token` (the start of a sequence).
int64_t token_offset(const at::Tensor& x, int64_t token) {
  if (x.dim() == 3) return token * x.stride(0);
  return x.size(1) == 0 ? 0 : token / x.size(1) * x.stride(0) + token % x.size(1) * x.stride(1);
}

struct Task {
  AttentionSequence sequence;
  SequencePlace place;
};

std::vector<Task> make_tasks(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const at::Tensor* grad_out,
    const at::Tensor& lse,
    const Bounds& cu_seqlens_q,
    const Bounds& cu_seqlens_k) {
  std::vector<Task> tasks;
  for (const SequenceRange& range : attention_sequences(q, k, cu_seqlens_q, cu_seqlens_k)) {
    // lse is [B, H, S] or [H, T]: a sequence starts at its batch row or at its first token.
    const int64_t lse_offset =
        cu_seqlens_q ? range.query_begin
                     : (q.size(1) == 0 ? 0 : range.query_begin / q.size(1) * lse.stride(0));
    tasks.push_back(
        {{.query_offset = token_offset(q, range.query_begin),
          .key_offset = token_offset(k, range.key_begin),
          .value_offset = token_offset(v, range.key_begin),
          .first_query = range.query_begin,
          .first_key = range.key_begin,
          .query_length = range.query_end - range.query_begin,
          .key_length = range.key_end - range.key_begin},
         {.lse_offset = lse_offset,
          .grad_out_offset =
              grad_out == nullptr ? 0 : token_offset(*grad_out, range.query_begin)}});
  }
  return tasks;
}

// Runs body(0 .. count) on torch's threads, each taking the next index.
template <class Body>
void for_each_task(int64_t count, const Body& body) {
  std::atomic<int64_t> next{0};
  const int64_t workers = std::min<int64_t>(at::get_num_threads(), count);
  at::parallel_for(0, workers, 1, [&](int64_t, int64_t) {
    for (int64_t index = next++; index < count; index = next++) body(index);
  });
}

std::tuple<at::Tensor, at::Tensor> forward_cpu(
    const at::Tensor& q_any,
    const at::Tensor& k_any,
    const at::Tensor& v_any,
    const Bounds& cu_seqlens_q,
    const Bounds& cu_seqlens_k,
    bool causal,
    double scale,
    double dropout,
    int64_t seed) {
  if (q_any.scalar_type() == at::kDouble) {
    return reference::flash_attention_forward(
        q_any, k_any, v_any, cu_seqlens_q, cu_seqlens_k, causal, scale, dropout, seed);
  }
  check_flash_attention(q_any, k_any, v_any, cu_seqlens_q, cu_seqlens_k, dropout);
  const at::Tensor q = with_unit_stride(q_any);
  const at::Tensor k = with_unit_stride(k_any);
  const at::Tensor v = with_unit_stride(v_any);
  std::vector<int64_t> out_sizes = q.sizes().vec();
  out_sizes.back() = v.size(-1);
  at::Tensor out = at::empty(out_sizes, q.options());
  std::vector<int64_t> lse_sizes{q.size(-2), q.size(-3)};
  if (!cu_seqlens_q) lse_sizes.insert(lse_sizes.begin(), q.size(0));
  at::Tensor lse = at::empty(lse_sizes, q.options().dtype(at::kFloat));
  const AttentionForward args{
      .shape = shape_of(q, k, v, causal, scale, dropout, seed),
      .query = head_array(q),
      .key = head_array(k),
      .value = head_array(v),
      .out = out.mutable_data_ptr(),
      .lse = lse.mutable_data_ptr<float>(),
      .lse_token_stride = lse.stride(-1),
      .lse_head_stride = lse.stride(-2)};
  const std::vector<Task> tasks = make_tasks(q, k, v, nullptr, lse, cu_seqlens_q, cu_seqlens_k);

  // First all keys and values are arranged in panels, then query blocks run over them.
  const int64_t key_value_heads = args.shape.num_key_value_heads;
  std::vector<size_t> packed_offsets{0};
  for (const Task& task : tasks) {
    const size_t size =
        (attention_packed_size(args.shape, task.sequence.key_length) + 15) / 16 * 16;
    for (int64_t head = 0; head < key_value_heads; ++head)
      packed_offsets.push_back(packed_offsets.back() + size);
  }
  auto packed = hwy::AllocateAligned<float>(std::max<size_t>(packed_offsets.back(), 1));
  for_each_task(static_cast<int64_t>(tasks.size()) * key_value_heads, [&](int64_t index) {
    const Task& task = tasks[index / key_value_heads];
    attention_pack(
        args, task.sequence, index % key_value_heads, packed.get() + packed_offsets[index]);
  });

  struct BlockTask {
    int64_t task;
    int64_t head;
    int64_t block;
  };
  std::vector<BlockTask> blocks;
  for (int64_t task = 0; task < static_cast<int64_t>(tasks.size()); ++task) {
    const int64_t count =
        (tasks[task].sequence.query_length + kAttentionQueryBlock - 1) / kAttentionQueryBlock;
    for (int64_t head = 0; head < args.shape.num_heads; ++head) {
      for (int64_t block = count; block-- > 0;) blocks.push_back({task, head, block});
    }
  }
  const int64_t group = args.shape.num_heads / key_value_heads;
  for_each_task(static_cast<int64_t>(blocks.size()), [&](int64_t index) {
    const BlockTask& block = blocks[index];
    const Task& task = tasks[block.task];
    const float* panels =
        packed.get() + packed_offsets[block.task * key_value_heads + block.head / group];
    attention_forward(args, task.sequence, task.place, block.head, block.block, panels);
  });
  return {out, lse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward_cpu(
    const at::Tensor& grad_out_any,
    const at::Tensor& q_any,
    const at::Tensor& k_any,
    const at::Tensor& v_any,
    const at::Tensor& out_any,
    const at::Tensor& lse_any,
    const Bounds& cu_seqlens_q,
    const Bounds& cu_seqlens_k,
    bool causal,
    double scale,
    double dropout,
    int64_t seed) {
  if (q_any.scalar_type() == at::kDouble) {
    return reference::flash_attention_backward(
        grad_out_any,
        q_any,
        k_any,
        v_any,
        out_any,
        lse_any,
        cu_seqlens_q,
        cu_seqlens_k,
        causal,
        scale,
        dropout,
        seed);
  }
  const at::Tensor q = with_unit_stride(q_any);
  const at::Tensor k = with_unit_stride(k_any);
  const at::Tensor v = with_unit_stride(v_any);
  const at::Tensor grad_out = with_unit_stride(grad_out_any);
  const at::Tensor out = out_any.contiguous();
  const at::Tensor lse = lse_any.contiguous();
  at::Tensor grad_q = at::empty(q.sizes(), q.options());
  at::Tensor grad_k = at::empty(k.sizes(), k.options());
  at::Tensor grad_v = at::empty(v.sizes(), v.options());
  const AttentionBackward args{
      .shape = shape_of(q, k, v, causal, scale, dropout, seed),
      .query = head_array(q),
      .key = head_array(k),
      .value = head_array(v),
      .out = head_array(out),
      .grad_out = head_array(grad_out),
      .lse = lse.const_data_ptr<float>(),
      .lse_token_stride = lse.stride(-1),
      .lse_head_stride = lse.stride(-2),
      .grad_query = grad_q.mutable_data_ptr(),
      .grad_key = grad_k.mutable_data_ptr(),
      .grad_value = grad_v.mutable_data_ptr()};
  std::vector<Task> tasks = make_tasks(q, k, v, &grad_out, lse, cu_seqlens_q, cu_seqlens_k);
  // Long sequences first, so that the last task to finish is a short one.
  std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) {
    return a.sequence.query_length > b.sequence.query_length;
  });
  const int64_t key_value_heads = args.shape.num_key_value_heads;
  for_each_task(static_cast<int64_t>(tasks.size()) * key_value_heads, [&](int64_t index) {
    const Task& task = tasks[index / key_value_heads];
    attention_backward(args, task.sequence, task.place, index % key_value_heads);
  });
  return {grad_q, grad_k, grad_v};
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("flash_attention_forward", forward_cpu);
  m.impl("flash_attention_backward", backward_cpu);
}

}  // namespace mindspeed::ops
