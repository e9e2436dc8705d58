// SPDX-License-Identifier: Apache-2.0
// AdamW (Loshchilov and Hutter 2019) over named parameters, with the fused multi-tensor update of
// ops/adamw.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "export.h"
#include "ops/adamw/settings.h"
#include "parallel/data_parallel.h"

namespace mindspeed::train {

/// Settings of our fused AdamW. Matrices decay by weight_decay; one-dim parameters (norms, biases)
/// do not.
struct OptimizerSettings {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  std::string swap_folder;  // moments live in a file there; empty: in memory
};

class MINDSPEED_API AdamW {
 public:
  /// Parameters of one floating dtype. Of bfloat16 and float16 ones the optimizer keeps float32
  /// master weights, which start as the parameters. With a swap folder parameters are float32.
  /// Throws memory::SwapError where the folder cannot take the moments.
  AdamW(parallel::NamedTensors parameters, OptimizerSettings settings);

  /// One update of every parameter that has a gradient; gradients are multiplied by `grad_scale` in
  /// the same pass.
  void step(double learning_rate, double grad_scale);

  /// exp_avg.<name>, exp_avg_sq.<name> and, where there is one, master.<name>, shaped as the
  /// parameters.
  std::map<std::string, at::Tensor> state() const;
  /// Copies into the state. Throws ValueError on a missing name or another shape.
  void load_state(const std::map<std::string, at::Tensor>& state);

  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

 private:
  struct Slot {
    std::string name;
    at::Tensor parameter;
    at::Tensor exp_avg;
    at::Tensor exp_avg_sq;
    at::Tensor master;  // float32 weights of a bfloat16 or float16 parameter; else undefined
  };
  void update(
      const std::vector<Slot>& slots, double learning_rate, double weight_decay, double grad_scale);
  void update_swapped(const std::vector<Slot>& slots, const ops::AdamWSettings& settings);

  OptimizerSettings settings_;
  std::vector<Slot> decayed_;
  std::vector<Slot> undecayed_;
  int64_t steps_ = 0;
};

}  // namespace mindspeed::train
