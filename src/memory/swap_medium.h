// SPDX-License-Identifier: Apache-2.0
// Where swapped tensors wait: a file for those in host memory, host memory for those of an
// accelerator. This is the whole seam between swapping and devices.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "export.h"

namespace mindspeed::memory {

class SwapMedium {
 public:
  using Slot = int64_t;
  virtual ~SwapMedium() = default;

  /// A copy of `bytes` (uint8, contiguous); complete on return. Throws SwapError.
  virtual Slot store(const at::Tensor& bytes) = 0;
  /// Fills `bytes`, of the size stored. Throws SwapError.
  virtual void load(Slot slot, const at::Tensor& bytes) = 0;
  /// The slot is free again.
  virtual void release(Slot slot) = 0;
};

/// For tensors in host memory: an unnamed file in `folder`. Throws SwapError.
MINDSPEED_API std::shared_ptr<SwapMedium> make_file_medium(const std::string& folder);

/// For tensors of an accelerator: pageable host memory, copied by the device's own copy engine.
MINDSPEED_API std::shared_ptr<SwapMedium> make_host_medium();

}  // namespace mindspeed::memory
