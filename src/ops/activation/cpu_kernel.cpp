// SPDX-License-Identifier: Apache-2.0
#include "ops/activation/kernel.h"
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/activation/cpu_kernel.cpp"
#include <algorithm>

#include "hwy/foreach_target.h"
//
#include "simd/isa.h"
#include "simd/normal-inl.h"
#include "simd/sigmoid-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace sv = simd::HWY_NAMESPACE;

struct ValueAndSlope {
  sv::FloatVector value;
  sv::FloatVector slope;
};

struct Silu {
  static sv::FloatVector value(sv::FloatTag d, sv::FloatVector g) {
    return hn::Mul(g, sv::sigmoid(d, g).value);
  }
  // s = sigmoid(g):  f = g s,  f' = s (1 + g (1 - s))
  static ValueAndSlope slope(sv::FloatTag d, sv::FloatVector g) {
    const auto [s, complement] = sv::sigmoid(d, g);
    return {hn::Mul(g, s), hn::Mul(s, hn::MulAdd(g, complement, hn::Set(d, 1.0F)))};
  }
};

struct Gelu {
  static sv::FloatVector value(sv::FloatTag d, sv::FloatVector g) {
    return hn::Mul(g, sv::normal(d, g).distribution);
  }
  // f = g P(g),  f' = P(g) + g p(g)
  static ValueAndSlope slope(sv::FloatTag d, sv::FloatVector g) {
    const auto [distribution, density] = sv::normal(d, g);
    return {hn::Mul(g, distribution), hn::MulAdd(g, density, distribution)};
  }
};

struct GeluTanh {
  // (1 + tanh(z)) / 2 = sigmoid(2 z) with z = sqrt(2/pi) (g + 0.044715 g^3)
  static constexpr float kTwoRoot = 1.5957691216057308F;  // 2 sqrt(2/pi)
  static constexpr float kCubic = 0.044715F;

  static sv::Sigmoid half_tanh(sv::FloatTag d, sv::FloatVector g, sv::FloatVector square) {
    const auto inner = hn::MulAdd(hn::Mul(square, g), hn::Set(d, kCubic), g);
    return sv::sigmoid(d, hn::Mul(inner, hn::Set(d, kTwoRoot)));
  }
  static sv::FloatVector value(sv::FloatTag d, sv::FloatVector g) {
    return hn::Mul(g, half_tanh(d, g, hn::Mul(g, g)).value);
  }
  // s = sigmoid(2 z):  f = g s,  f' = s + g s (1 - s) 2 z'
  static ValueAndSlope slope(sv::FloatTag d, sv::FloatVector g) {
    const auto one = hn::Set(d, 1.0F);
    const auto square = hn::Mul(g, g);
    const auto [s, complement] = half_tanh(d, g, square);
    const auto value = hn::Mul(g, s);
    const auto inner_slope =
        hn::Mul(hn::MulAdd(square, hn::Set(d, 3 * kCubic), one), hn::Set(d, kTwoRoot));
    return {value, hn::MulAdd(hn::Mul(value, complement), inner_slope, s)};
  }
};

template <class Visitor>
void visit_activation(Activation activation, const Visitor& visit) {
  switch (activation) {
    case Activation::kSilu:
      return visit(Silu{});
    case Activation::kGelu:
      return visit(Gelu{});
    case Activation::kGeluTanh:
      return visit(GeluTanh{});
  }
}

template <class Access, class T>
HWY_INLINE sv::FloatVector load_biased(Access access, const T* row, const float* bias, size_t i) {
  const sv::FloatTag d;
  const auto value = access.load(d, row + i);
  return bias == nullptr ? value : hn::Add(value, access.load(d, bias + i));
}

template <class F, class T>
void forward(const ActivationInputs& inputs, T* out, int64_t begin, int64_t end) {
  const sv::FloatTag d;
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = static_cast<const T*>(inputs.gate) + row * inputs.gate_stride;
    const T* up = static_cast<const T*>(inputs.up) + row * inputs.up_stride;
    T* to = out + row * inputs.size;
    sv::for_each_vector(inputs.size, [&](auto access, size_t i) {
      auto y = F::value(d, load_biased(access, gate, inputs.gate_bias, i));
      if (inputs.up != nullptr) y = hn::Mul(y, load_biased(access, up, inputs.up_bias, i));
      access.store(y, d, to + i);
    });
  }
}

template <class Access>
HWY_INLINE void add_to(Access access, float* sum, sv::FloatVector share) {
  const sv::FloatTag d;
  access.store(hn::Add(access.load(d, sum), share), d, sum);
}

template <class F, class T>
void backward(
    const ActivationInputs& inputs,
    const ActivationGradients& gradients,
    int64_t begin,
    int64_t end,
    float* grad_bias) {
  const sv::FloatTag d;
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = static_cast<const T*>(inputs.gate) + row * inputs.gate_stride;
    const T* up = static_cast<const T*>(inputs.up) + row * inputs.up_stride;
    const T* grad = static_cast<const T*>(gradients.grad) + row * gradients.grad_stride;
    T* grad_gate = static_cast<T*>(gradients.grad_gate) + row * gradients.grad_gate_stride;
    T* grad_up = static_cast<T*>(gradients.grad_up) + row * gradients.grad_up_stride;
    sv::for_each_vector(inputs.size, [&](auto access, size_t i) {
      auto g = access.load(d, grad + i);
      const auto [value, slope] = F::slope(d, load_biased(access, gate, inputs.gate_bias, i));
      if (inputs.up != nullptr) {
        const auto to_up = hn::Mul(g, value);
        access.store(to_up, d, grad_up + i);
        if (grad_bias != nullptr) add_to(access, grad_bias + inputs.size + i, to_up);
        g = hn::Mul(g, load_biased(access, up, inputs.up_bias, i));
      }
      const auto to_gate = hn::Mul(g, slope);
      access.store(to_gate, d, grad_gate + i);
      if (grad_bias != nullptr) add_to(access, grad_bias + i, to_gate);
    });
  }
}

void activation_forward_all(const ActivationInputs& inputs, void* out, int64_t begin, int64_t end) {
  simd::visit_element_type(inputs.type, [&](auto element) {
    visit_activation(inputs.activation, [&](auto activation) {
      forward<decltype(activation)>(inputs, static_cast<decltype(element)*>(out), begin, end);
    });
  });
}

void activation_backward_all(
    const ActivationInputs& inputs,
    const ActivationGradients& gradients,
    int64_t begin,
    int64_t end,
    float* grad_bias) {
  if (grad_bias != nullptr) {
    std::fill_n(grad_bias, inputs.up == nullptr ? inputs.size : 2 * inputs.size, 0.0F);
  }
  simd::visit_element_type(inputs.type, [&](auto element) {
    visit_activation(inputs.activation, [&](auto activation) {
      backward<decltype(activation), decltype(element)>(inputs, gradients, begin, end, grad_bias);
    });
  });
}

}  // namespace mindspeed::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::ops {

HWY_EXPORT(activation_forward_all);
HWY_EXPORT(activation_backward_all);

void activation_forward_rows(
    const ActivationInputs& inputs, void* out, int64_t begin, int64_t end) {
  MINDSPEED_DISPATCH(activation_forward_all)(inputs, out, begin, end);
}

void activation_backward_rows(
    const ActivationInputs& inputs,
    const ActivationGradients& gradients,
    int64_t begin,
    int64_t end,
    float* grad_bias) {
  MINDSPEED_DISPATCH(activation_backward_all)(inputs, gradients, begin, end, grad_bias);
}

}  // namespace mindspeed::ops
#endif  // HWY_ONCE
