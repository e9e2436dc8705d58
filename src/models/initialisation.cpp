// SPDX-License-Identifier: Apache-2.0
#include "models/initialisation.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <array>
#include <cmath>
#include <numbers>

namespace mindspeed::models {
namespace {

// FNV-1a: a stable hash, unlike std::hash, so that weights do not depend on the standard library.
uint64_t hash_name(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (unsigned char byte : name) hash = (hash ^ byte) * 0x100000001b3ULL;
  return hash;
}

std::array<uint32_t, 4> philox(uint64_t counter, uint64_t stream, uint64_t key) {
  std::array<uint32_t, 4> c = {
      static_cast<uint32_t>(counter),
      static_cast<uint32_t>(counter >> 32),
      static_cast<uint32_t>(stream),
      static_cast<uint32_t>(stream >> 32)};
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {
        static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0,
        static_cast<uint32_t>(p1),
        static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1,
        static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

// The normal value of one global element: elements 2i and 2i+1 share a Box-Muller pair.
float normal_at(uint64_t index, uint64_t stream, uint64_t seed) {
  const auto random = philox(index / 4, stream, seed);
  const size_t pair = (index % 4) / 2 * 2;
  const double u1 = (random[pair] + 1.0) * 0x1p-32;  // (0, 1]: the logarithm stays finite
  const double u2 = random[pair + 1] * 0x1p-32;
  const double radius = std::sqrt(-2.0 * std::log(u1));
  const double angle = 2.0 * std::numbers::pi * u2;
  return static_cast<float>(radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle)));
}

}  // namespace

void fill_normal(
    at::Tensor local,
    const parallel::ParameterOwner& owner,
    const parallel::Mesh& mesh,
    const std::string& name,
    uint64_t seed,
    double standard_deviation) {
  TORCH_INTERNAL_ASSERT(
      local.scalar_type() == at::kFloat && local.is_contiguous() && local.device().is_cpu());
  TORCH_INTERNAL_ASSERT(owner.global_shape.size() <= 2);
  const int64_t global_columns = owner.global_shape.size() == 2 ? owner.global_shape[1] : 1;
  const auto range = owner.local_range(mesh);
  const int64_t row_start = owner.split_dim == 0 ? range.start : 0;
  const int64_t column_start = owner.split_dim == 1 ? range.start : 0;
  const int64_t columns = owner.global_shape.size() == 2 ? local.size(1) : 1;
  const int64_t rows = columns == 0 ? 0 : local.numel() / columns;
  float* data = local.data_ptr<float>();
  const uint64_t stream = hash_name(name);
  at::parallel_for(
      0, rows, 1 + 16384 / std::max<int64_t>(columns, 1), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t first = (row_start + row) * global_columns + column_start;
          for (int64_t column = 0; column < columns; ++column) {
            data[row * columns + column] =
                static_cast<float>(standard_deviation) * normal_at(first + column, stream, seed);
          }
        }
      });
}

}  // namespace mindspeed::models
