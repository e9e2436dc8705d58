// SPDX-License-Identifier: Apache-2.0
#include "simd/isa.h"

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "simd/targets.h"
//
#include "hwy/highway.h"

namespace mindspeed::simd {
namespace {

// On x86 a lower bit is a newer instruction set. Every set up to AVX-512 counts as avx512, the rest
// as baseline.
std::string_view name_of(int64_t target) {
#if HWY_ARCH_X86
  if (target <= HWY_AVX3) return "avx512";
  if (target == HWY_AVX2) return "avx2";
#else
  (void)target;
#endif
  return "baseline";
}

int64_t best_of(int64_t targets) {
  return targets & -targets;
}

// The targets among `supported` whose name is at most `wanted`.
int64_t targets_up_to(int64_t supported, std::string_view wanted) {
  int64_t allowed = supported;
  while (allowed != 0 && name_of(best_of(allowed)) != wanted) allowed &= allowed - 1;
  return allowed;
}

void restrict_to(std::string_view wanted) {
  if (wanted != "baseline" && wanted != "avx2" && wanted != "avx512") {
    throw std::invalid_argument(
        "MINDSPEED_ISA: must be one of baseline, avx2, avx512, got '" + std::string(wanted) +
        "'; unset it to use the best that this CPU has");
  }
  const int64_t supported = hwy::SupportedTargets();
  const int64_t allowed = targets_up_to(supported, wanted);
  if (allowed == 0) {
    throw std::invalid_argument(
        "MINDSPEED_ISA: must be supported by this CPU, got '" + std::string(wanted) +
        "' but the best here is " + std::string(name_of(best_of(supported))) +
        "; unset it or name that one");
  }
  hwy::DisableTargets(supported & ~allowed);
}

int64_t choose() {
  const char* wanted = std::getenv("MINDSPEED_ISA");
  if (wanted != nullptr && *wanted != '\0') restrict_to(wanted);
  const int64_t supported = hwy::SupportedTargets();
  hwy::GetChosenTarget().Update(supported);
  return best_of(supported & HWY_TARGETS);
}

int64_t chosen_target() {
  static const int64_t target = choose();
  return target;
}

}  // namespace

void select_isa() {
  chosen_target();
}

std::string isa_name() {
  return std::string(name_of(chosen_target()));
}

}  // namespace mindspeed::simd
