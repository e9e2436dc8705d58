// SPDX-License-Identifier: Apache-2.0
// MINDSPEED_API marks what libmindspeed shows to other libraries; everything else is hidden.
#pragma once
#define MINDSPEED_API __attribute__((visibility("default")))
