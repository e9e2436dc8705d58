// SPDX-License-Identifier: Apache-2.0
// Tensors to the kernel's structs and tasks over threads. How the work is cut into tasks depends on
// the shape alone, and a task writes its own outputs only, so results do not depend on the number
// of threads; tasks are taken from a counter because documents differ in length.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <hwy/aligned_allocator.h>
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

#include "ops/flash_attention/attention_settings.h"
#include "ops/flash_attention/kernel.h"
#include "ops/flash_attention/sequences.h"
#include "ops/rows.h"

namespace mindspeed::ops {
namespace {

// The same tensor with unit last stride; a copy only when it has none.
at::Tensor with_unit_stride(const at::Tensor& x) {
  return x.stride(-1) == 1 || x.size(-1) == 1 ? x : x.contiguous();
}

HeadArray head_array(const at::Tensor& x) {
  return {x.const_data_ptr(), x.stride(-3), x.stride(-2)};
}

HeadScalars head_scalars(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), x.stride(-1), x.stride(-2)};
}

// One number a head as the kernel reads it; `kept` holds the memory.
const float* per_head(const std::optional<at::Tensor>& numbers, std::vector<at::Tensor>& kept) {
  if (!numbers) return nullptr;
  kept.push_back(numbers->contiguous());
  return kept.back().const_data_ptr<float>();
}

AttentionShape shape_of(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const AttentionSettings& settings,
    std::vector<at::Tensor>& kept) {
  // beyond any sequence a bound is none; this keeps sums with it from overflowing
  constexpr int64_t kFar = int64_t{1} << 48;
  return {
      .type = element_type(q),
      .num_heads = q.size(-2),
      .num_key_value_heads = k.size(-2),
      .head_size = q.size(-1),
      .value_size = v.size(-1),
      .window_left = std::min(settings.window_left, kFar),
      .window_right = std::min(settings.right_bound(), kFar),
      .scale = static_cast<float>(settings.scale_of(q)),
      .softcap = static_cast<float>(settings.softcap),
      .dropout = static_cast<float>(settings.dropout),
      .seed = static_cast<uint64_t>(settings.seed),
      .alibi_slopes = per_head(settings.alibi_slopes, kept),
      .sinks = per_head(settings.sinks, kept)};
}

// Elements from the tensor's start to flattened token `token` (the start of a sequence).
int64_t token_offset(const at::Tensor& x, int64_t token) {
  if (x.dim() == 3) return token * x.stride(0);
  return x.size(1) == 0 ? 0 : token / x.size(1) * x.stride(0) + token % x.size(1) * x.stride(1);
}

std::vector<AttentionSequence> kernel_sequences(
    const at::Tensor& q,
    const at::Tensor& k,
    const at::Tensor& v,
    const at::Tensor& grad_out,
    const at::Tensor& lse,
    const AttentionSettings& settings) {
  std::vector<AttentionSequence> sequences;
  for (const SequenceRange& range : attention_sequences(q, k, settings)) {
    // lse is [B, H, S] or [H, T]: a sequence starts at its batch row or at its first token.
    const int64_t lse_offset =
        settings.packed() ? range.query_begin
                          : (q.size(1) == 0 ? 0 : range.query_begin / q.size(1) * lse.stride(0));
    sequences.push_back(
        {.query_offset = token_offset(q, range.query_begin),
         .key_offset = token_offset(k, range.key_begin),
         .value_offset = token_offset(v, range.key_begin),
         .grad_out_offset = grad_out.defined() ? token_offset(grad_out, range.query_begin) : 0,
         .lse_offset = lse_offset,
         .first_query = range.query_begin,
         .first_key = range.key_begin,
         .query_length = range.query_end - range.query_begin,
         .key_length = range.key_end - range.key_begin});
  }
  return sequences;
}

// Runs body(0 .. count, workspace) on torch's threads, each taking the next index.
template <class Body>
void for_each_task(int64_t count, const Body& body) {
  std::atomic<int64_t> next{0};
  const int64_t workers = std::min<int64_t>(at::get_num_threads(), count);
  at::parallel_for(0, workers, 1, [&](int64_t, int64_t) {
    Workspace workspace;
    for (int64_t index = next++; index < count; index = next++) {
      workspace.start_task();
      body(index, workspace);
    }
  });
}

// All keys and values of forward, arranged once for all query blocks.
struct PackedHeads {
  std::vector<size_t> offsets{0};  // of (sequence, key/value head)
  hwy::AlignedFreeUniquePtr<float[]> data;

  PackedHeads(const AttentionForward& args, const std::vector<AttentionSequence>& sequences) {
    const int64_t heads = args.shape.num_key_value_heads;
    for (const AttentionSequence& sequence : sequences) {
      const size_t size = attention_packed_size(args.shape, sequence.key_length);
      for (int64_t head = 0; head < heads; ++head)
        offsets.push_back(offsets.back() + (size + 15) / 16 * 16);
    }
    data = hwy::AllocateAligned<float>(std::max<size_t>(offsets.back(), 1));
    for_each_task(
        static_cast<int64_t>(sequences.size()) * heads, [&](int64_t index, Workspace& workspace) {
          attention_pack(
              args,
              sequences[index / heads],
              index % heads,
              data.get() + offsets[index],
              workspace);
        });
  }
};

void run_forward(const AttentionForward& args, const std::vector<AttentionSequence>& sequences) {
  struct BlockTask {
    int64_t sequence;
    int64_t head;
    int64_t block;
  };
  const PackedHeads packed(args, sequences);
  std::vector<BlockTask> blocks;
  for (int64_t index = 0; index < static_cast<int64_t>(sequences.size()); ++index) {
    const int64_t count =
        (sequences[index].query_length + kAttentionQueryBlock - 1) / kAttentionQueryBlock;
    for (int64_t head = 0; head < args.shape.num_heads; ++head) {
      for (int64_t block = count; block-- > 0;) blocks.push_back({index, head, block});
    }
  }
  const int64_t key_value_heads = args.shape.num_key_value_heads;
  const int64_t group = args.shape.num_heads / key_value_heads;
  for_each_task(static_cast<int64_t>(blocks.size()), [&](int64_t index, Workspace& workspace) {
    const BlockTask& task = blocks[index];
    const size_t offset = packed.offsets[task.sequence * key_value_heads + task.head / group];
    attention_forward(
        args,
        sequences[task.sequence],
        task.head,
        task.block,
        packed.data.get() + offset,
        workspace);
  });
}

AttentionOutputs forward_cpu(
    const at::Tensor& q_any,
    const at::Tensor& k_any,
    const at::Tensor& v_any,
    const AttentionSettings& settings) {
  if (q_any.scalar_type() == at::kDouble) {
    return reference::flash_attention_forward(q_any, k_any, v_any, settings);
  }
  check_flash_attention(q_any, k_any, v_any, settings);
  const at::Tensor q = with_unit_stride(q_any);
  const at::Tensor k = with_unit_stride(k_any);
  const at::Tensor v = with_unit_stride(v_any);
  std::vector<int64_t> out_sizes = q.sizes().vec();
  out_sizes.back() = v.size(-1);
  at::Tensor out = at::empty(out_sizes, q.options());
  std::vector<int64_t> lse_sizes{q.size(-2), q.size(-3)};
  if (!settings.packed()) lse_sizes.insert(lse_sizes.begin(), q.size(0));
  at::Tensor lse = at::empty(lse_sizes, q.options().dtype(at::kFloat));
  std::vector<at::Tensor> kept;
  const AttentionForward args{
      .shape = shape_of(q, k, v, settings, kept),
      .query = head_array(q),
      .key = head_array(k),
      .value = head_array(v),
      .out = out.mutable_data_ptr(),
      .lse = lse.mutable_data_ptr<float>(),
      .lse_token_stride = lse.stride(-1),
      .lse_head_stride = lse.stride(-2)};
  run_forward(args, kernel_sequences(q, k, v, at::Tensor(), lse, settings));
  return {out, lse};
}

// Keys a backward task takes: about 64 tasks keep as many cores busy, and below 256 keys copying
// the queries for each task would cost more than it brings.
int64_t keys_per_task(
    const AttentionShape& shape, const std::vector<AttentionSequence>& sequences) {
  constexpr int64_t kTasks = 64;
  constexpr int64_t kMinKeys = 256;
  int64_t keys = 0;
  for (const AttentionSequence& sequence : sequences) keys += sequence.key_length;
  const int64_t blocks = keys * shape.num_key_value_heads / kTasks / kAttentionKeyBlock;
  return std::max(kMinKeys, blocks * kAttentionKeyBlock);
}

// Backward of one key/value head of a sequence, cut into ranges of keys. The parts of the queries'
// gradients live from the first task that starts to the last that ends, which adds them up.
class BackwardUnit {
 public:
  BackwardUnit(
      const AttentionBackward& args,
      const AttentionSequence& sequence,
      int64_t key_value_head,
      int64_t keys_per_task)
      : args_(args), sequence_(sequence), head_(key_value_head) {
    const int64_t group = args.shape.num_heads / args.shape.num_key_value_heads;
    int64_t key = 0;
    do {  // a sequence without keys has a task too: it writes the queries' zeros
      const int64_t end = std::min(key + keys_per_task, sequence.key_length);
      const TokenRange queries = args.shape.visibility(sequence).queries_of({key, end});
      keys_.push_back({key, end});
      parts_.push_back({queries, nullptr});
      offsets_.push_back(size_);
      if (!queries.empty()) size_ += group * attention_partial_size(args.shape, queries.size());
      key = end;
    } while (key < sequence.key_length);
    remaining_ = num_tasks();
  }

  int64_t num_tasks() const { return static_cast<int64_t>(keys_.size()); }
  int64_t work() const { return sequence_.query_length * sequence_.key_length; }

  void run(int64_t task, Workspace& workspace) {
    std::call_once(allocated_, [&] {
      data_ = hwy::AllocateAligned<float>(std::max<size_t>(size_, 1));
      for (size_t i = 0; i < parts_.size(); ++i) parts_[i].data = data_.get() + offsets_[i];
    });
    attention_backward(
        args_, sequence_, head_, keys_[task], data_.get() + offsets_[task], workspace);
    if (--remaining_ > 0) return;
    attention_sum_grad_query(args_, sequence_, head_, parts_.data(), parts_.size(), workspace);
    data_.reset();
  }

 private:
  const AttentionBackward& args_;
  const AttentionSequence& sequence_;
  int64_t head_;
  std::vector<TokenRange> keys_;
  std::vector<PartialGradQuery> parts_;
  std::vector<size_t> offsets_;
  size_t size_ = 0;
  std::once_flag allocated_;
  hwy::AlignedFreeUniquePtr<float[]> data_;
  std::atomic<int64_t> remaining_;
};

void run_backward(const AttentionBackward& args, const std::vector<AttentionSequence>& sequences) {
  const int64_t keys = keys_per_task(args.shape, sequences);
  std::vector<std::unique_ptr<BackwardUnit>> units;
  for (const AttentionSequence& sequence : sequences) {
    for (int64_t head = 0; head < args.shape.num_key_value_heads; ++head)
      units.push_back(std::make_unique<BackwardUnit>(args, sequence, head, keys));
  }
  // Long sequences first, so that the last task to finish is a short one.
  std::stable_sort(units.begin(), units.end(), [](const auto& a, const auto& b) {
    return a->work() > b->work();
  });
  std::vector<std::pair<BackwardUnit*, int64_t>> tasks;
  for (const auto& unit : units) {
    for (int64_t task = 0; task < unit->num_tasks(); ++task) tasks.emplace_back(unit.get(), task);
  }
  for_each_task(static_cast<int64_t>(tasks.size()), [&](int64_t index, Workspace& workspace) {
    tasks[index].first->run(tasks[index].second, workspace);
  });
}

AttentionGradients backward_cpu(
    const at::Tensor& grad_out_any,
    const at::Tensor& q_any,
    const at::Tensor& k_any,
    const at::Tensor& v_any,
    const at::Tensor& out_any,
    const at::Tensor& lse_any,
    const AttentionSettings& settings,
    const std::optional<at::Tensor>& grad_lse_any) {
  if (q_any.scalar_type() == at::kDouble) {
    return reference::flash_attention_backward(
        grad_out_any, q_any, k_any, v_any, out_any, lse_any, settings, grad_lse_any);
  }
  const at::Tensor q = with_unit_stride(q_any);
  const at::Tensor k = with_unit_stride(k_any);
  const at::Tensor v = with_unit_stride(v_any);
  const at::Tensor grad_out = with_unit_stride(grad_out_any);
  const at::Tensor out = out_any.contiguous();
  const at::Tensor lse = lse_any.contiguous();
  const at::Tensor grad_lse = grad_lse_any ? grad_lse_any->contiguous() : at::Tensor();
  at::Tensor grad_q = at::empty(q.sizes(), q.options());
  at::Tensor grad_k = at::empty(k.sizes(), k.options());
  at::Tensor grad_v = at::empty(v.sizes(), v.options());
  std::vector<at::Tensor> kept;
  const AttentionBackward args{
      .shape = shape_of(q, k, v, settings, kept),
      .query = head_array(q),
      .key = head_array(k),
      .value = head_array(v),
      .out = head_array(out),
      .grad_out = head_array(grad_out),
      .lse = head_scalars(lse),
      .grad_lse = grad_lse.defined() ? head_scalars(grad_lse) : HeadScalars{},
      .grad_query = grad_q.mutable_data_ptr(),
      .grad_key = grad_k.mutable_data_ptr(),
      .grad_value = grad_v.mutable_data_ptr()};
  run_backward(args, kernel_sequences(q, k, v, grad_out, lse, settings));
  return {grad_q, grad_k, grad_v};
}

}  // namespace

TORCH_LIBRARY_IMPL(mindspeed, CPU, m) {
  m.impl("flash_attention_forward", AttentionKernel::forward<forward_cpu>);
  m.impl("flash_attention_backward", AttentionKernel::backward<backward_cpu>);
}

}  // namespace mindspeed::ops
