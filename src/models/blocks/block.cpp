// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/block.h"

#include <ATen/ops/empty.h>

namespace mindspeed::models {

at::Tensor Block::declare(
    BuildContext& context, const std::string& name, parallel::ParameterOwner owner) {
  if (!owner.split_axis.empty()) {
    const int64_t size = context.mesh.axis(owner.split_axis).size;
    TORCH_CHECK_VALUE(
        owner.global_shape[owner.split_dim] % size == 0,
        child(name),
        ": the ",
        owner.split_axis,
        " parallel size (",
        size,
        ") must divide dim ",
        owner.split_dim,
        " (",
        owner.global_shape[owner.split_dim],
        ") of this parameter");
  }
  at::Tensor parameter = at::empty(owner.local_shape(context.mesh), context.options);
  context.owners.emplace(child(name), std::move(owner));
  return register_parameter(name, parameter);
}

}  // namespace mindspeed::models
