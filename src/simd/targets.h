// SPDX-License-Identifier: Apache-2.0
// The first include of every cpu_kernel.cpp: the instruction sets that kernels are compiled for.
#pragma once

// SSSE3 and SSE4 are the best set of no machine that trains; leaving them out saves two fifths of
// the kernels' compile time. What has no AVX2 runs the SSE2 baseline.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
