// SPDX-License-Identifier: Apache-2.0
#include "models/activation_observer.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace mindspeed::models {
namespace {
thread_local std::vector<const ActivationObserver*> listening;
}

ObserveActivations::ObserveActivations(ActivationObserver observer)
    : observer_(std::move(observer)) {
  listening.push_back(&observer_);
}

ObserveActivations::~ObserveActivations() {
  std::erase(listening, &observer_);
}

void observe_activation(const std::string& path, const at::Tensor& output) {
  for (const ActivationObserver* observer : listening) (*observer)(path, output);
}

}  // namespace mindspeed::models
