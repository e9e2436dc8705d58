// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/norm.h"

#include "models/activation_observer.h"
#include "ops/add_rms_norm/add_rms_norm.h"
#include "ops/rms_norm/rms_norm.h"

namespace mindspeed::models {

std::vector<at::Tensor> to_tensors(const ResidualStream& stream) {
  if (!stream.delta.defined()) return {stream.sum};
  return {stream.sum, stream.delta};
}

ResidualStream to_stream(const std::vector<at::Tensor>& tensors) {
  return {tensors[0], tensors.size() > 1 ? tensors[1] : at::Tensor()};
}

Norm::Norm(BuildContext& context, std::string path, const NormSpec& spec, int64_t size)
    : Block(std::move(path)),
      eps_(spec.eps),
      weight_(declare(context, "weight", {{size}, "", 0})) {}

at::Tensor Norm::forward(ResidualStream& stream) {
  at::Tensor weight = weight_.to(stream.sum.scalar_type());
  at::Tensor normed;
  if (stream.delta.defined()) {
    std::tie(normed, stream.sum) = ops::add_rms_norm(stream.delta, stream.sum, weight, eps_);
    stream.delta = at::Tensor();
  } else {
    normed = ops::rms_norm(stream.sum, weight, eps_);
  }
  observe_activation(path(), normed);
  return normed;
}

}  // namespace mindspeed::models
