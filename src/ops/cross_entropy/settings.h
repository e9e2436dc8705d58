// SPDX-License-Identifier: Apache-2.0
// What can be set of a cross entropy. Torch-free.
#pragma once

#include <cstdint>
#include <tuple>

namespace mindspeed::ops {

// With the logits x of a token, s = softcap tanh(x / softcap) (s = x without softcap), lse = log of
// the sum of e^s, y the label and V the vocabulary:
//   loss = (1 - label_smoothing) (lse - s_y) + label_smoothing / V sum_v (lse - s_v) + z_loss lse^2
struct CrossEntropySettings {
  int64_t ignore_index = -100;   // a token with this label has no loss
  double z_loss = 0.0;           // PaLM's (Chowdhery et al. 2022); 0: off
  double label_smoothing = 0.0;  // in [0, 1], as torch.nn.functional.cross_entropy defines it
  double softcap = 0.0;          // Gemma 2's (2024) bound of the logits; 0: none

  using Flat = std::tuple<int64_t, double, double, double>;
  Flat flat() const { return {ignore_index, z_loss, label_smoothing, softcap}; }
};

}  // namespace mindspeed::ops
