// SPDX-License-Identifier: Apache-2.0
// What every block shares: its path in the model, and how it declares a parameter with its owner.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <map>
#include <string>

#include "parallel/mesh.h"
#include "parallel/parameter_owner.h"

namespace mindspeed::models {

/// What blocks need while the model is built.
struct BuildContext {
  at::TensorOptions options;  // float32 and the device
  parallel::Mesh mesh;
  std::map<std::string, parallel::ParameterOwner>
      owners;  // by full parameter name, filled by declare()
};

/// A module that knows its path ("model.layers.3.mlp") and declares owned parameters.
class Block : public torch::nn::Module {
 public:
  explicit Block(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }

 protected:
  /// Registers parameter `name` with this rank's local shape and records its owner.
  at::Tensor declare(
      BuildContext& context, const std::string& name, parallel::ParameterOwner owner);

  std::string child(const std::string& name) const {
    return path_.empty() ? name : path_ + "." + name;
  }

 private:
  std::string path_;
};

}  // namespace mindspeed::models
