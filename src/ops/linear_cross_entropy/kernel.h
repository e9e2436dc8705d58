// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy over rows of float32 logits, in place.
#pragma once

#include <cstdint>

namespace mindspeed::ops {

struct CrossEntropyRows {
  float* logits;  // [rows, vocab] contiguous; with gradients, overwritten by d loss / d logits
  const int64_t* labels;  // [rows]
  float* losses;          // [rows]; 0 for ignored rows
  int64_t vocab;
  int64_t ignore_index;
  float z_loss;
  bool write_gradient;
};

/// Rows [begin, end).
void cross_entropy_rows(const CrossEntropyRows& args, int64_t begin, int64_t end);

}  // namespace mindspeed::ops
