// SPDX-License-Identifier: Apache-2.0
// Umbrella of the simd room. The *-inl.h files are for cpu_kernel.cpp files only (compiled once a
// target).
#pragma once

#include "simd/element_type.h"
#include "simd/isa.h"
