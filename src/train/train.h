// SPDX-License-Identifier: Apache-2.0
// Umbrella of the train room.
#pragma once

#include "train/step_engine.h"
