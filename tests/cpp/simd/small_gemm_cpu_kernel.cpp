// SPDX-License-Identifier: Apache-2.0
// simd::multiply as a function of every instruction set, compiled as the operators' kernels are.
#include "simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "small_gemm_cpu_kernel.cpp"
#include "hwy/foreach_target.h"
//
#include "simd/small_gemm-inl.h"
#include "small_gemm_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace mindspeed::simd::HWY_NAMESPACE {

size_t columns_of_panel() {
  return panel_columns();
}

template <bool kAdd>
HWY_INLINE void product_of(const SmallProduct& p, const Rows& a) {
  multiply(
      p.rows,
      p.columns,
      a,
      Panels{p.b, panel_columns(), p.b_row_stride},
      p.c,
      p.b_row_stride,
      kAdd,
      [&](size_t, size_t, size_t) {
        return InnerRange{0, p.inner};
      });
}

// As in the operators the compiler knows which stride is 1 and whether the product is added: that
// decides how it groups the loads.
template <bool kAdd>
void product_by_stride(const SmallProduct& p) {
  if (p.a_row_stride == 1) {
    product_of<kAdd>(p, Rows{p.a, 1, p.a_inner_stride});
  } else {
    product_of<kAdd>(p, Rows{p.a, p.a_row_stride, 1});
  }
}

void product(const SmallProduct& p) {
  if (p.add) {
    product_by_stride<true>(p);
  } else {
    product_by_stride<false>(p);
  }
}

}  // namespace mindspeed::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mindspeed::simd {

HWY_EXPORT(columns_of_panel);
HWY_EXPORT(product);

size_t small_gemm_panel_columns() {
  return HWY_DYNAMIC_DISPATCH(columns_of_panel)();
}
void small_gemm(const SmallProduct& p) {
  HWY_DYNAMIC_DISPATCH(product)(p);
}
std::vector<int64_t> compiled_and_supported_targets() {
  return hwy::SupportedAndGeneratedTargets();
}

}  // namespace mindspeed::simd
#endif
