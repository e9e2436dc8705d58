// SPDX-License-Identifier: Apache-2.0
#include "train/loss_scaler.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace mindspeed::train {

void LossScaler::update(bool overflowed) {
  if (!enabled_) return;
  if (overflowed) {
    scale_ = std::max(scale_ * kBackoff, 1.0);
    good_steps_ = 0;
  } else if (++good_steps_ == kGrowthInterval) {
    scale_ *= kGrowth;
    good_steps_ = 0;
  }
}

std::string LossScaler::state_json() const {
  return nlohmann::json{{"scale", scale_}, {"good_steps", good_steps_}}.dump();
}

void LossScaler::load_state_json(const std::string& text) {
  try {
    const auto state = nlohmann::json::parse(text);
    const double scale = state.at("scale").get<double>();
    good_steps_ = state.at("good_steps").get<int64_t>();
    if (enabled_) scale_ = scale;
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(std::string("loss scaler state: ") + error.what());
  }
}

}  // namespace mindspeed::train
