// SPDX-License-Identifier: Apache-2.0
// The JSON form of StepSettings, as the Python front sends it.
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "train/step_engine.h"

namespace mindspeed::train {
namespace {

using nlohmann::json;

at::ScalarType parse_precision(const std::string& name) {
  if (name == "fp32") return at::kFloat;
  if (name == "bf16") return at::kBFloat16;
  if (name == "fp16") return at::kHalf;
  throw std::invalid_argument("precision ('" + name + "') must be one of: fp32, bf16, fp16");
}

OptimizerSettings parse_optimizer(const json& object) {
  OptimizerSettings settings;
  for (const auto& [key, value] : object.items()) {
    if (key == "betas") {
      settings.beta1 = value.at(0).get<double>();
      settings.beta2 = value.at(1).get<double>();
    } else if (key == "eps") {
      settings.eps = value.get<double>();
    } else if (key == "weight_decay") {
      settings.weight_decay = value.get<double>();
    } else {
      throw std::invalid_argument("optimizer." + key + " is not a setting of the step engine");
    }
  }
  return settings;
}

SwapSettings parse_swap(const json& object) {
  SwapSettings swap;
  for (const auto& [key, value] : object.items()) {
    if (key == "activations") {
      swap.activations = value.get<bool>();
    } else if (key == "optimizer") {
      swap.optimizer = value.get<bool>();
    } else if (key == "folder") {
      swap.folder = value.get<std::string>();
    } else {
      throw std::invalid_argument("swap." + key + " is not a setting of the step engine");
    }
  }
  if (swap.folder.empty()) throw std::invalid_argument("swap.folder must be named");
  return swap;
}

}  // namespace

StepSettings StepSettings::from_json(const std::string& text) {
  StepSettings settings;
  try {
    const json object = json::parse(text);
    for (const auto& [key, value] : object.items()) {
      if (key == "precision") {
        settings.compute_dtype = parse_precision(value.get<std::string>());
      } else if (key == "clip_norm") {
        settings.clip_norm = value.get<double>();
      } else if (key == "z_loss") {
        settings.z_loss = value.get<double>();
      } else if (key == "bucket_bytes") {
        settings.bucket_bytes = value.get<int64_t>();
      } else if (key == "fsdp") {
        settings.fully_sharded = value.get<bool>();
      } else if (key == "recompute") {
        for (const json& name : value) {
          settings.recomputation.push_back(
              models::recomputation_from_name(name.get<std::string>()));
        }
      } else if (key == "swap") {
        settings.swap = parse_swap(value);
      } else if (key == "optimizer") {
        if (!value.is_null()) settings.optimizer = parse_optimizer(value);
      } else {
        throw std::invalid_argument(key + " is not a setting of the step engine");
      }
    }
  } catch (const json::exception& error) {
    throw std::invalid_argument(std::string("step settings: ") + error.what());
  }
  if (settings.swap.optimizer) {
    if (!settings.optimizer) {
      throw std::invalid_argument("swap.optimizer needs the step engine's own optimizer");
    }
    settings.optimizer->swap_folder = settings.swap.folder;
  }
  return settings;
}

}  // namespace mindspeed::train
