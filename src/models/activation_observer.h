// SPDX-License-Identifier: Apache-2.0
// Blocks report each operator's output under its module path. Normally nobody listens and the call
// costs a load; the non-finite search (train/non_finite_search.h) listens during a replay.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "export.h"

namespace mindspeed::models {

using ActivationObserver = std::function<void(const std::string& path, const at::Tensor& output)>;

/// Listens on this thread while it lives. Scopes nest: the inner one hears.
class MINDSPEED_API ObserveActivations {
 public:
  explicit ObserveActivations(ActivationObserver observer);
  ~ObserveActivations();
  ObserveActivations(const ObserveActivations&) = delete;
  ObserveActivations& operator=(const ObserveActivations&) = delete;

 private:
  ActivationObserver observer_;
  const ActivationObserver* previous_;
};

/// Hands `output` to the listener of this thread, if any.
MINDSPEED_API void observe_activation(const std::string& path, const at::Tensor& output);

}  // namespace mindspeed::models
