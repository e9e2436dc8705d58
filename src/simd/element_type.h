// SPDX-License-Identifier: Apache-2.0
// How a kernel's activations are stored. Arithmetic is float32 whatever the storage.
#pragma once

#include <cstdint>

namespace mindspeed::simd {

enum class ElementType : uint8_t { kFloat32, kBFloat16, kFloat16 };

// Storage of a 16-bit float as its bits; conversions stand in simd/vector-inl.h.
struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

// Calls visit(T{}) with the storage type that `type` names.
template <class Visitor>
void visit_element_type(ElementType type, const Visitor& visit) {
  switch (type) {
    case ElementType::kFloat32:
      return visit(float{});
    case ElementType::kBFloat16:
      return visit(BFloat16{});
    case ElementType::kFloat16:
      return visit(Float16{});
  }
}

}  // namespace mindspeed::simd
