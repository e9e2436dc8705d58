// SPDX-License-Identifier: Apache-2.0
// The data room: text to tokens on disk, and tokens to packed training samples. No torch.
#pragma once
#include "data/bpe_trainer.h"
#include "data/indexed_dataset.h"
#include "data/packed_dataset.h"
#include "data/preprocess.h"
#include "data/tokenizer.h"
#include "data/tokenizer_json.h"
