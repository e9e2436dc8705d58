// SPDX-License-Identifier: Apache-2.0
// Takes the memory of live tensors away and gives it back later with the same contents. Tensors,
// views and autograd's saved values share a storage and are not touched; nobody may read them in
// between.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <memory>
#include <vector>

#include "export.h"
#include "memory/swap_medium.h"

namespace mindspeed::memory {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

/// Storages that leave and come back together.
class SwapBatch;

/// Copies in the background, on one thread, in the order of the calls. Errors of the background
/// are thrown by the next call that waits. Outlives its batches in no particular order.
class MINDSPEED_API StorageSwap {
 public:
  explicit StorageSwap(std::shared_ptr<SwapMedium> medium);
  ~StorageSwap();
  StorageSwap(const StorageSwap&) = delete;
  StorageSwap& operator=(const StorageSwap&) = delete;

  /// Starts to move those of the storages out that still live.
  std::shared_ptr<SwapBatch> send_out(std::vector<WeakStorage> storages);

  /// Starts to bring a batch back; a storage that nobody holds any more is dropped.
  void bring_back(const std::shared_ptr<SwapBatch>& batch);

  /// Waits until a batch is all out after send_out(). Throws SwapError.
  void wait_out(const std::shared_ptr<SwapBatch>& batch);

  /// Waits until a batch is all back, bringing it back first where nobody did. Throws SwapError,
  /// and c10::OutOfMemoryError where memory for it is lacking even now.
  void wait_back(const std::shared_ptr<SwapBatch>& batch);

 private:
  struct Worker;
  std::shared_ptr<SwapMedium> medium_;
  std::unique_ptr<Worker> worker_;
};

}  // namespace mindspeed::memory
