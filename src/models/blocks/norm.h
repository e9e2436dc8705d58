// SPDX-License-Identifier: Apache-2.0
// Root-mean-square normalisation (Zhang and Sennrich 2019), alone or fused with the residual
// addition before it.
#pragma once

#include "models/blocks/block.h"
#include "models/model_spec.h"

namespace mindspeed::models {

/// The residual stream between blocks: its value is `sum` + `delta`; `delta` (the last block's
/// output) is added by the next norm in the same pass over memory. An undefined delta counts as
/// zero.
struct ResidualStream {
  at::Tensor sum;
  at::Tensor delta;
};

/// The stream as the one or two tensors that cross a boundary, and back.
std::vector<at::Tensor> to_tensors(const ResidualStream& stream);
ResidualStream to_stream(const std::vector<at::Tensor>& tensors);

class Norm : public Block {
 public:
  Norm(BuildContext& context, std::string path, const NormSpec& spec, int64_t size);

  /// Folds the pending delta into the stream and returns the normalised value, [..., size].
  at::Tensor forward(ResidualStream& stream);

  const at::Tensor& weight() const { return weight_; }
  double eps() const { return eps_; }

 private:
  double eps_;
  at::Tensor weight_;
};

}  // namespace mindspeed::models
