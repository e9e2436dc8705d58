// SPDX-License-Identifier: Apache-2.0
// Dynamic loss scaling for float16 (Micikevicius et al. 2018): the loss is multiplied so that small
// gradients do not vanish; the factor falls when gradients overflow and grows again after a run of
// good steps.
#pragma once

#include <cstdint>
#include <string>

#include "export.h"

namespace mindspeed::train {

class MINDSPEED_API LossScaler {
 public:
  static constexpr double kInitialScale = 65536.0;
  static constexpr double kGrowth = 2.0;
  static constexpr double kBackoff = 0.5;
  static constexpr int64_t kGrowthInterval = 2000;  // good steps before the scale grows

  /// A disabled scaler's scale is 1 for ever.
  explicit LossScaler(bool enabled) : enabled_(enabled), scale_(enabled ? kInitialScale : 1.0) {}

  double scale() const { return scale_; }

  /// Tells whether the step overflowed; sets the scale of the next one.
  void update(bool overflowed);

  /// {"scale": s, "good_steps": n}
  std::string state_json() const;
  /// Throws std::invalid_argument if the text is not such a state.
  void load_state_json(const std::string& json);

 private:
  bool enabled_;
  double scale_;
  int64_t good_steps_ = 0;
};

}  // namespace mindspeed::train
