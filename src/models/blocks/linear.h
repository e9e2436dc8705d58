// SPDX-License-Identifier: Apache-2.0
// A linear layer y = x W^T + b whose weight may be cut along the tensor axis by rows (outputs) or
// columns (inputs).
#pragma once

#include "models/blocks/block.h"

namespace mindspeed::models {

/// Which dim of the weight is cut along the tensor axis.
enum class LinearSplit { kOutputs, kInputs };

class Linear : public Block {
 public:
  Linear(
      BuildContext& context,
      std::string path,
      int64_t inputs,
      int64_t outputs,
      bool bias,
      LinearSplit split);

  /// x [..., inputs] in the compute dtype -> [..., outputs]. The float32 weight is cast to x's
  /// dtype.
  at::Tensor forward(const at::Tensor& x);

  const at::Tensor& weight() const { return weight_; }
  /// Undefined without a bias.
  const at::Tensor& bias() const { return bias_; }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

}  // namespace mindspeed::models
