// SPDX-License-Identifier: Apache-2.0
// Umbrella of the fused operators.
#pragma once

#include "ops/rms_norm/rms_norm.h"
