// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/rotary.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mindspeed::models {
namespace {

at::Tensor plain_frequencies(double theta, int64_t head_size) {
  at::Tensor exponents = at::arange(0, head_size, 2, at::kFloat) / static_cast<double>(head_size);
  return 1.0 / at::pow(theta, exponents);
}

// Llama 3.1: long wavelengths are slowed by `factor`, short ones kept, those between interpolated.
at::Tensor llama3_frequencies(const RotarySpec& spec, int64_t head_size) {
  at::Tensor frequencies = plain_frequencies(spec.theta, head_size);
  const double context = static_cast<double>(spec.original_max_position_embeddings);
  const double low_wavelength = context / spec.low_freq_factor;
  const double high_wavelength = context / spec.high_freq_factor;
  at::Tensor wavelength = 2.0 * std::numbers::pi / frequencies;
  at::Tensor scaled =
      at::where(wavelength > low_wavelength, frequencies / spec.factor, frequencies);
  at::Tensor smooth = (context / wavelength - spec.low_freq_factor) /
                      (spec.high_freq_factor - spec.low_freq_factor);
  at::Tensor between = (1 - smooth) * scaled / spec.factor + smooth * scaled;
  at::Tensor is_between = (wavelength >= high_wavelength).logical_and(wavelength <= low_wavelength);
  return at::where(is_between, between, scaled);
}

}  // namespace

at::Tensor rotary_frequencies(
    const RotarySpec& spec, int64_t head_size, int64_t max_position_embeddings, int64_t length) {
  if (spec.scaling == "linear") return plain_frequencies(spec.theta, head_size) / spec.factor;
  if (spec.scaling == "llama3") return llama3_frequencies(spec, head_size);
  if (spec.scaling == "dynamic") {
    const double longest = static_cast<double>(std::max(length, max_position_embeddings));
    const double stretch =
        spec.factor * longest / static_cast<double>(max_position_embeddings) - (spec.factor - 1);
    const double size = static_cast<double>(head_size);
    return plain_frequencies(spec.theta * std::pow(stretch, size / (size - 2)), head_size);
  }
  return plain_frequencies(spec.theta, head_size);
}

RotaryTableCache::RotaryTableCache(
    RotarySpec spec, int64_t head_size, int64_t max_position_embeddings)
    : spec_(std::move(spec)),
      head_size_(head_size),
      max_position_embeddings_(max_position_embeddings) {}

const RotaryTables& RotaryTableCache::tables(int64_t length, at::Device device) {
  const int64_t scaled_length =
      spec_.scaling == "dynamic" ? std::max(length, max_position_embeddings_) : 0;
  const bool fits = tables_.cos.defined() && tables_.cos.size(0) >= length &&
                    tables_.cos.device() == device && scaled_length == scaled_length_;
  if (!fits) {
    at::Tensor frequencies =
        rotary_frequencies(spec_, head_size_, max_position_embeddings_, length);
    at::Tensor angles = at::outer(at::arange(length, at::kFloat), frequencies);
    tables_ = {angles.cos().to(device), angles.sin().to(device)};
    scaled_length_ = scaled_length;
  }
  return tables_;
}

}  // namespace mindspeed::models
