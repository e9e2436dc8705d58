// SPDX-License-Identifier: Apache-2.0
// Umbrella of the models room.
#pragma once

#include "models/causal_lm.h"
#include "models/model_spec.h"
