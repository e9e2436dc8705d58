"""Floating point operations of a step, as computed: causal and packed attention count their own pairs.

Legend: T tokens, L layers, H heads, D head size.
"""

from typing import Any

import torch


def matmul_parameters(spec: dict[str, Any]) -> int:
    """Weights that each token is multiplied with: the projections, the MLP and the output layer."""
    hidden, attention = spec["hidden_size"], spec["attention"]
    query = attention["num_heads"] * attention["head_size"]
    key_value = attention["num_key_value_heads"] * attention["head_size"]
    layer = hidden * (2 * query + 2 * key_value) + 3 * hidden * spec["mlp"]["intermediate_size"]
    return spec["num_layers"] * layer + hidden * spec["vocab_size"]


def causal_pairs(cu_seqlens: torch.Tensor) -> int:
    """Query-key pairs of causal attention within documents: the sum of n (n + 1) / 2."""
    lengths = (cu_seqlens[1:] - cu_seqlens[:-1]).to(torch.int64)
    return int((lengths * (lengths + 1) // 2).sum())


def training_flops(spec: dict[str, Any], tokens: int, pairs: int) -> int:
    """Forward and backward of T tokens with ``pairs`` query-key pairs.

    6 a weight and token; attention 2 products of 2 H D a pair forward, twice that backward. What a
    kernel computes again in backward is not counted.
    """
    attention = spec["attention"]
    per_pair = 3 * 2 * 2 * attention["num_heads"] * attention["head_size"]
    return 6 * matmul_parameters(spec) * tokens + per_pair * spec["num_layers"] * pairs
