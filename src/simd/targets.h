// SPDX-License-Identifier: Apache-2.0
// The first include of every cpu_kernel.cpp: the instruction sets that kernels are compiled for.
#pragma once

// SSSE3 alone is on no machine that trains; leaving it out saves a fifth of the kernels' compile
// time.
#define HWY_DISABLED_TARGETS HWY_SSSE3
