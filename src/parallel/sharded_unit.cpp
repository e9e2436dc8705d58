// SPDX-License-Identifier: Apache-2.0
#include "parallel/sharded_unit.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "parallel/collectives.h"

namespace mindspeed::parallel {
namespace {

// Gives a storage memory, or takes it away; tensors that share the storage follow.
void set_storage_bytes(const at::Tensor& tensor, size_t bytes) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->nbytes() == bytes) return;
  c10::DataPtr memory =
      bytes == 0 ? c10::DataPtr(nullptr, tensor.device()) : storage->allocator()->allocate(bytes);
  storage->set_data_ptr_noswap(std::move(memory));
  storage->set_nbytes(bytes);
}

// One piece of each parameter, one after the other, padded to equal sizes on all ranks.
at::Tensor piece(const at::Tensor& flat, int64_t offset, int64_t rows, int64_t row_size) {
  return flat.narrow(0, offset, rows * row_size).view({rows, row_size});
}

}  // namespace

ShardRows shard_rows(int64_t rows, int64_t rank, int64_t world_size) {
  const int64_t each = (rows + world_size - 1) / world_size;
  const int64_t start = std::min(rank * each, rows);
  return {start, std::min(each, rows - start)};
}

ShardedUnit::ShardedUnit(
    std::vector<at::Tensor> parameters,
    c10::intrusive_ptr<c10d::ProcessGroup> group,
    std::optional<at::ScalarType> compute_dtype)
    : parameters_(std::move(parameters)), group_(std::move(group)) {
  at::NoGradGuard no_grad;
  const int64_t size = group_->getSize();
  for (at::Tensor& parameter : parameters_) {
    TORCH_CHECK_VALUE(
        parameter.dim() >= 1 && parameter.is_contiguous() && parameter.scalar_type() == at::kFloat,
        "full sharding: parameters must be contiguous float32 of at least one dim, got ",
        parameter.scalar_type(),
        " ",
        parameter.sizes());
    const int64_t rows = parameter.size(0);
    const ShardRows mine = shard_rows(rows, group_->getRank(), size);
    Part part;
    part.shard = parameter.detach().narrow(0, mine.start, mine.length).clone();
    part.whole = at::empty(
        parameter.sizes(),
        parameter.options().dtype(compute_dtype.value_or(at::kFloat)).requires_grad(false));
    part.padded_rows = (rows + size - 1) / size;
    part.row_size = rows == 0 ? 0 : parameter.numel() / rows;
    shard_size_ += part.padded_rows * part.row_size;
    set_storage_bytes(part.whole, 0);
    parameter.set_data(part.shard);
    parameter.mutable_grad() = at::Tensor();
    parts_.push_back(std::move(part));
  }
}

void ShardedUnit::start_gather() {
  if (gathered_ || gather_work_ || parts_.empty()) return;
  at::NoGradGuard no_grad;
  const at::TensorOptions options = parts_[0].whole.options();
  gather_input_ = at::zeros({shard_size_}, options);
  int64_t offset = 0;
  for (const Part& part : parts_) {
    const int64_t rows = part.shard.size(0);
    piece(gather_input_, offset, rows, part.row_size).copy_(part.shard.view({rows, part.row_size}));
    offset += part.padded_rows * part.row_size;
  }
  gather_output_ = at::empty({group_->getSize() * shard_size_}, options);
  gather_work_ = start_all_gather(*group_, gather_output_, gather_input_);
}

void ShardedUnit::gather() {
  if (gathered_ || parts_.empty()) return;
  start_gather();
  gather_work_->wait();
  gather_work_.reset();
  fill_whole(gather_output_);
  gather_input_ = at::Tensor();
  gather_output_ = at::Tensor();
  for (size_t i = 0; i < parts_.size(); ++i) {
    parameters_[i].mutable_grad() = at::Tensor();
    parameters_[i].set_data(parts_[i].whole);
  }
  gathered_ = true;
}

// Scatters what all ranks sent into the whole tensors. Written through data of their own version
// counter: a graph that saved a whole tensor must find it unchanged, and its values are.
void ShardedUnit::fill_whole(const at::Tensor& gathered) {
  at::NoGradGuard no_grad;
  int64_t offset = 0;
  for (Part& part : parts_) {
    set_storage_bytes(
        part.whole, static_cast<size_t>(part.whole.numel()) * part.whole.element_size());
    const int64_t rows = part.whole.size(0);
    at::Tensor target = part.whole.variable_data().view({rows, part.row_size});
    for (int64_t rank = 0; rank < group_->getSize(); ++rank) {
      const ShardRows theirs = shard_rows(rows, rank, group_->getSize());
      target.narrow(0, theirs.start, theirs.length)
          .copy_(piece(gathered, rank * shard_size_ + offset, theirs.length, part.row_size));
    }
    offset += part.padded_rows * part.row_size;
  }
}

void ShardedUnit::release() {
  if (gather_work_) gather();  // a prefetched unit that was not used
  if (!gathered_) return;
  for (size_t i = 0; i < parts_.size(); ++i) {
    parameters_[i].mutable_grad() = at::Tensor();
    parameters_[i].set_data(parts_[i].shard);
    set_storage_bytes(parts_[i].whole, 0);
  }
  gathered_ = false;
}

void ShardedUnit::start_gradient_reduction(double scale) {
  if (parts_.empty()) return;
  at::NoGradGuard no_grad;
  const int64_t size = group_->getSize();
  const at::TensorOptions options = parts_[0].shard.options();
  Reduction reduction;
  reduction.scale = scale;
  reduction.input = at::zeros({size * shard_size_}, options);
  reduction.output = at::empty({shard_size_}, options);
  int64_t offset = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    at::Tensor& gradient = parameters_[i].mutable_grad();
    if (gradient.defined()) {
      const int64_t rows = part.whole.size(0);
      const at::Tensor source = gradient.reshape({rows, part.row_size});
      for (int64_t rank = 0; rank < size; ++rank) {
        const ShardRows theirs = shard_rows(rows, rank, size);
        piece(reduction.input, rank * shard_size_ + offset, theirs.length, part.row_size)
            .copy_(source.narrow(0, theirs.start, theirs.length));
      }
      gradient = at::Tensor();
    }
    offset += part.padded_rows * part.row_size;
  }
  reduction.work = start_reduce_scatter(*group_, reduction.output, reduction.input);
  reductions_.push_back(std::move(reduction));
}

double ShardedUnit::finish_gradient_reduction() {
  at::NoGradGuard no_grad;
  const auto start = std::chrono::steady_clock::now();
  for (Reduction& reduction : reductions_) {
    reduction.work->wait();
    if (reduction.scale != 1.0) reduction.output.mul_(reduction.scale);
    int64_t offset = 0;
    for (Part& part : parts_) {
      const int64_t rows = part.shard.size(0);
      const at::Tensor mine =
          piece(reduction.output, offset, rows, part.row_size).view(part.shard.sizes());
      part.gradient = part.gradient.defined() ? part.gradient.add_(mine) : mine.clone();
      offset += part.padded_rows * part.row_size;
    }
  }
  reductions_.clear();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void ShardedUnit::attach_gradients() {
  TORCH_INTERNAL_ASSERT(!gathered_);
  for (size_t i = 0; i < parts_.size(); ++i) parameters_[i].mutable_grad() = parts_[i].gradient;
}

void ShardedUnit::zero_gradients() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].gradient = at::Tensor();
    parameters_[i].mutable_grad() = at::Tensor();
  }
}

}  // namespace mindspeed::parallel
