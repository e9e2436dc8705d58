// SPDX-License-Identifier: Apache-2.0
#include "models/activation_observer.h"

#include <utility>

namespace mindspeed::models {
namespace {
thread_local const ActivationObserver* current = nullptr;
}

ObserveActivations::ObserveActivations(ActivationObserver observer)
    : observer_(std::move(observer)), previous_(std::exchange(current, &observer_)) {}

ObserveActivations::~ObserveActivations() {
  current = previous_;
}

void observe_activation(const std::string& path, const at::Tensor& output) {
  if (current != nullptr) (*current)(path, output);
}

}  // namespace mindspeed::models
