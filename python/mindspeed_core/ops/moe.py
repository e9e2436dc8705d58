"""The parts of a mixture of experts.

A layer is ``moe_router`` -> ``moe_permute`` -> ``grouped_gemm`` (and an activation, and another) ->
``moe_unpermute``.
"""

from typing import Literal

import torch
from torch import Tensor

import mindspeed_core  # noqa: F401  (loads libmindspeed, which registers the operators)

__all__ = [
    "grouped_gemm",
    "grouped_gemm_weight_gradient_",
    "moe_permute",
    "moe_router",
    "moe_unpermute",
]


def moe_router(
    logits: Tensor,
    top_k: int,
    score: Literal["softmax", "sigmoid"] = "softmax",
    correction_bias: Tensor | None = None,
    num_groups: int = 1,
    top_k_groups: int = 1,
    renormalize: bool = True,
    scaling_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Each token's experts and their weights: logits [T, E] to (weights, experts, tokens_per_expert).

    Scores are the softmax or sigmoid of logits. Chosen are the top_k largest ``score + correction_bias`` [E] (of equal
    ones the first), with ``num_groups`` > 1 only within the ``top_k_groups`` best groups of neighbours: by their best
    expert, or with a bias by the sum of their best two (DeepSeek-V2, -V3). Weights are the chosen scores without bias,
    divided by their sum with ``renormalize``, times ``scaling_factor``.

    weights [T, top_k] in float32 (float64 for float64), differentiable in logits; experts int64 [T, top_k], largest
    first; tokens_per_expert int64 [E].
    """
    return torch.ops.mindspeed.moe_router(
        logits,
        top_k,
        score,
        correction_bias,
        num_groups,
        top_k_groups,
        renormalize,
        scaling_factor,
    )


def moe_permute(x: Tensor, experts: Tensor, num_experts: int) -> tuple[Tensor, Tensor]:
    """Tokens sorted by expert: x [T, N], experts int64 [T, K] to (rows [T K, N], slots int64 [T K]).

    ``rows[p] = x[slots[p] // K]``; slot t K + k is token t's k-th expert. Within an expert tokens keep their order.
    """
    return torch.ops.mindspeed.moe_permute(x, experts, num_experts)


def moe_unpermute(rows: Tensor, slots: Tensor, weights: Tensor) -> Tensor:
    """Each token's rows times their weights, added: rows [T K, N], slots [T K], weights [T, K] to [T, N]."""
    return torch.ops.mindspeed.moe_unpermute(rows, slots, weights)


def grouped_gemm(rows: Tensor, weight: Tensor, tokens_per_expert: Tensor) -> Tensor:
    """``rows[r] @ weight[expert of r]``: rows [R, K] sorted by expert, weight [E, K, N], counts int64 [E] to [R, N]."""
    return torch.ops.mindspeed.grouped_gemm(rows, weight, tokens_per_expert)


def grouped_gemm_weight_gradient_(
    grad_weight: Tensor, rows: Tensor, grad: Tensor, tokens_per_expert: Tensor
) -> None:
    """Add ``grouped_gemm``'s weight gradient to grad_weight [E, K, N], float32 or of the rows' dtype."""
    torch.ops.mindspeed.grouped_gemm_weight_gradient_(grad_weight, rows, grad, tokens_per_expert)
