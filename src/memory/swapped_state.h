// SPDX-License-Identifier: Apache-2.0
// Float32 tensors that live in an unnamed file and visit memory: the file is mapped, the kernel
// reads ahead what will be needed and may write out and drop what is not.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "export.h"

namespace mindspeed::memory {

class MINDSPEED_API SwappedState {
 public:
  /// Room for `elements` in `folder`, taken from the disk now. Throws SwapError.
  SwappedState(const std::string& folder, int64_t elements);

  /// The next tensor of the file, zeros; keeps the file alive. The tensors together hold at most
  /// the elements asked for.
  at::Tensor take(at::IntArrayRef sizes);

 private:
  struct Mapping;
  std::shared_ptr<Mapping> mapping_;
  int64_t elements_;
  int64_t taken_ = 0;
};

/// Lets the kernel read a tensor (or a contiguous part of one) of a SwappedState ahead, in the
/// background.
MINDSPEED_API void read_ahead(const at::Tensor& tensor);

/// Takes its pages out of the process; their contents stay in the file.
MINDSPEED_API void drop_pages(const at::Tensor& tensor);

}  // namespace mindspeed::memory
