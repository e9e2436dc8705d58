// SPDX-License-Identifier: Apache-2.0
// The loops of y = f(gate) * up, included once a target. An Activation has
//   value(d, g) = f(g)      slope(d, g) = {f(g), f'(g)}
#if defined(MINDSPEED_OPS_GATED_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MINDSPEED_OPS_GATED_KERNEL_INL_H_
#undef MINDSPEED_OPS_GATED_KERNEL_INL_H_
#else
#define MINDSPEED_OPS_GATED_KERNEL_INL_H_
#endif

#include "ops/gated/kernel.h"
#include "simd/sigmoid-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace sv = simd::HWY_NAMESPACE;

struct ValueAndSlope {
  sv::FloatVector value;
  sv::FloatVector slope;
};

template <class Activation>
void gated_forward(const GatedForward& args, int64_t begin, int64_t end) {
  simd::visit_element_type(args.type, [&](auto element) {
    using T = decltype(element);
    const sv::FloatTag d;
    for (int64_t row = begin; row < end; ++row) {
      const T* gate = static_cast<const T*>(args.gate) + row * args.gate_stride;
      const T* up = static_cast<const T*>(args.up) + row * args.up_stride;
      T* out = static_cast<T*>(args.out) + row * args.size;
      sv::for_each_vector(args.size, [&](auto access, size_t i) {
        const auto activated = Activation::value(d, access.load(d, gate + i));
        access.store(hn::Mul(activated, access.load(d, up + i)), d, out + i);
      });
    }
  });
}

template <class Activation>
void gated_backward(const GatedBackward& args, int64_t begin, int64_t end) {
  simd::visit_element_type(args.type, [&](auto element) {
    using T = decltype(element);
    const sv::FloatTag d;
    for (int64_t row = begin; row < end; ++row) {
      const T* grad = static_cast<const T*>(args.grad) + row * args.grad_stride;
      const T* gate = static_cast<const T*>(args.gate) + row * args.gate_stride;
      const T* up = static_cast<const T*>(args.up) + row * args.up_stride;
      T* grad_gate = static_cast<T*>(args.grad_gate) + row * args.size;
      T* grad_up = static_cast<T*>(args.grad_up) + row * args.size;
      sv::for_each_vector(args.size, [&](auto access, size_t i) {
        const auto g = access.load(d, grad + i);
        const auto [value, slope] = Activation::slope(d, access.load(d, gate + i));
        access.store(hn::Mul(g, value), d, grad_up + i);
        access.store(hn::Mul(hn::Mul(g, access.load(d, up + i)), slope), d, grad_gate + i);
      });
    }
  });
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MINDSPEED_OPS_GATED_KERNEL_INL_H_
