// SPDX-License-Identifier: Apache-2.0
// Sums gradients over data parallel ranks in buckets, each as soon as backward has filled it.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <memory>
#include <vector>

#include "export.h"

namespace mindspeed::parallel {

/// Gradients live as views into flat buckets, filled in reverse order of the parameters (the order
/// in which backward tends to finish them). Micro batches before the last only accumulate. Buckets
/// are reduced strictly in order, so every rank issues the same collectives and sums in the same
/// order from run to run.
class MINDSPEED_API GradientReducer {
 public:
  /// Parameters must be leaves of one dtype and device (else ValueError). A bucket holds at most
  /// bucket_bytes, but at least one parameter.
  GradientReducer(
      std::vector<at::Tensor> parameters,
      c10::intrusive_ptr<c10d::ProcessGroup> group,
      int64_t bucket_bytes);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// Arms the overlap: from here on a bucket is all-reduced (sum) once all its gradients have
  /// arrived.
  void begin_last_micro_batch();

  /// Launches what is left (a parameter without gradient counts as zero), waits for all. Returns
  /// the seconds waited.
  double finish();

  /// Sets all gradients to zero (and makes them views of the buckets again if somebody replaced
  /// them).
  void zero_gradients();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the hooks, which may outlive this object
};

}  // namespace mindspeed::parallel
