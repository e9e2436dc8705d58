// SPDX-License-Identifier: Apache-2.0
// The whole engine: include this, link MindSpeed::mindspeed.
#pragma once

#include "models/models.h"
#include "train/train.h"
