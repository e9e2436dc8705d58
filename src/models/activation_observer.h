// SPDX-License-Identifier: Apache-2.0
// Blocks report each operator's output, and residual sums, under their module path. Normally nobody
// listens and the call costs a load; the non-finite search (train/non_finite_search.h) listens
// during a replay, activation swapping (train/activation_swap.h) in every forward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "export.h"

namespace mindspeed::models {

using ActivationObserver = std::function<void(const std::string& path, const at::Tensor& output)>;

/// Listens on this thread while it lives, beside those that listen already.
class MINDSPEED_API ObserveActivations {
 public:
  explicit ObserveActivations(ActivationObserver observer);
  ~ObserveActivations();
  ObserveActivations(const ObserveActivations&) = delete;
  ObserveActivations& operator=(const ObserveActivations&) = delete;

 private:
  ActivationObserver observer_;
};

/// Hands `output` to the listeners of this thread.
MINDSPEED_API void observe_activation(const std::string& path, const at::Tensor& output);

}  // namespace mindspeed::models
