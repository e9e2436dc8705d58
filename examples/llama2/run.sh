#!/usr/bin/env bash
# Trains LLaMA 2 on the eight devices of one machine. Set the data first: data.train and data.tokenizer.
cd "$(dirname "$0")" || exit 1
export ASCEND_GLOBAL_LOG_LEVEL=${ASCEND_GLOBAL_LOG_LEVEL:-3}  # our log: 0 debug, 1 info, 2 warning, 3 error, 4 off
export HCCL_CONNECT_TIMEOUT=${HCCL_CONNECT_TIMEOUT:-1800}      # the process groups' time limit in seconds
torchrun --nproc_per_node=8 --nnodes=1 --node_rank=0 pretrain_llama2.py --config llama2_config.yaml "$@"
