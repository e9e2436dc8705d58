// SPDX-License-Identifier: Apache-2.0
// One IEEE half at a time to and from float32, rounding to nearest even, for instruction sets
// without conversion instructions. Method: Fabian Giesen, "float->half variants" (public domain).
#pragma once

#include <bit>
#include <cstdint>

#include "simd/element_type.h"

namespace mindspeed::simd {

inline float to_float(Float16 half) {
  const uint32_t magnitude = static_cast<uint32_t>(half.bits & 0x7fffU) << 13;
  const uint32_t exponent = magnitude & (0x7c00U << 13);
  uint32_t bits = magnitude + (112U << 23);
  if (exponent == (0x7c00U << 13)) bits += 112U << 23;  // infinity or NaN
  if (exponent == 0) {                                  // zero or subnormal: renormalise
    bits = std::bit_cast<uint32_t>(
        std::bit_cast<float>(bits + (1U << 23)) - std::bit_cast<float>(113U << 23));
  }
  return std::bit_cast<float>(bits | (static_cast<uint32_t>(half.bits & 0x8000U) << 16));
}

inline Float16 to_float16(float value) {
  const uint32_t all_bits = std::bit_cast<uint32_t>(value);
  uint32_t bits = all_bits & 0x7fffffffU;
  if (bits >= (143U << 23)) {  // 65536 and more, infinity, NaN
    bits = bits > (255U << 23) ? 0x7e00U : 0x7c00U;
  } else if (bits < (113U << 23)) {  // subnormal: the addition rounds
    bits = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + 0.5F) - (126U << 23);
  } else {
    bits = (bits - (112U << 23) + 0xfffU + ((bits >> 13) & 1U)) >> 13;
  }
  return {static_cast<uint16_t>(bits | ((all_bits >> 16) & 0x8000U))};
}

}  // namespace mindspeed::simd
