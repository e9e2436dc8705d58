// SPDX-License-Identifier: Apache-2.0
// Umbrella of the fused operators.
#pragma once

#include "ops/adamw/adamw.h"
#include "ops/add_rms_norm/add_rms_norm.h"
#include "ops/bias_dropout_add/bias_dropout_add.h"
#include "ops/bias_gelu/bias_gelu.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/flash_attention/flash_attention.h"
#include "ops/gated_activation/gated_activation.h"
#include "ops/geglu/geglu.h"
#include "ops/grouped_gemm/grouped_gemm.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "ops/linear_weight_gradient/linear_weight_gradient.h"
#include "ops/moe_permute/moe_permute.h"
#include "ops/moe_router/moe_router.h"
#include "ops/moe_unpermute/moe_unpermute.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rotary_embedding/rotary_embedding.h"
#include "ops/scaled_masked_softmax/scaled_masked_softmax.h"
#include "ops/squared_norm/squared_norm.h"
#include "ops/swiglu/swiglu.h"
