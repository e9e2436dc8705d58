// SPDX-License-Identifier: Apache-2.0
// Single-tensor collectives under the names they have in torch 2.11 to 2.15.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace mindspeed::parallel {

/// Starts gathering `input` of every rank into `output`, one after the other.
template <class Group>
c10::intrusive_ptr<c10d::Work> start_all_gather(
    Group& group, at::Tensor& output, at::Tensor& input) {
  if constexpr (requires { group.all_gather_single(output, input); }) {
    return group.all_gather_single(output, input);
  } else {
    return group._allgather_base(output, input);
  }
}

/// Starts summing `input` over ranks; `output` receives this rank's part.
template <class Group>
c10::intrusive_ptr<c10d::Work> start_reduce_scatter(
    Group& group, at::Tensor& output, at::Tensor& input) {
  if constexpr (requires { group.reduce_scatter_single(output, input); }) {
    return group.reduce_scatter_single(output, input);
  } else {
    return group._reduce_scatter_base(output, input);
  }
}

}  // namespace mindspeed::parallel
