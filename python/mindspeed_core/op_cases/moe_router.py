"""The choice of experts, by the weights it gives."""

from typing import Any

import torch
from torch import Tensor

from mindspeed_core.op_cases import OperatorCases, random, strided


def route(
    logits: Tensor,
    top_k: int,
    score: str = "softmax",
    correction_bias: Tensor | None = None,
    num_groups: int = 1,
    top_k_groups: int = 1,
    renormalize: bool = True,
    scaling_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """DeepSeek-V3's gate (inference/model.py, class Gate), in at least float32: weights, experts, counts."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    scores = wide.softmax(-1) if score == "softmax" else wide.sigmoid()
    choice = scores if correction_bias is None else scores + correction_bias.to(scores.dtype)
    if num_groups > 1:
        groups = choice.view(len(logits), num_groups, -1)
        best = groups.amax(-1) if correction_bias is None else groups.topk(2)[0].sum(-1)
        left_out = torch.ones_like(best, dtype=torch.bool)
        left_out = left_out.scatter(1, best.topk(top_k_groups)[1], False)
        choice = groups.masked_fill(left_out.unsqueeze(-1), -torch.inf).flatten(1)
    experts = choice.argsort(dim=-1, descending=True, stable=True)[:, :top_k]
    weights = scores.gather(1, experts)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    counts = torch.bincount(experts.flatten(), minlength=logits.shape[1])
    return weights * scaling_factor, experts, counts


def correction(num_experts: int, dtype: torch.dtype) -> Tensor:
    """A bias that changes many choices."""
    wide = torch.promote_types(dtype, torch.float32)
    return random(num_experts, dtype=torch.float32, grad=False, scale=0.2).to(wide)


def deepseek(tokens: int, num_experts: int, dtype: torch.dtype) -> tuple[Any, ...]:
    """DeepSeek-V3's settings."""
    logits = random(tokens, num_experts, dtype=dtype)
    return logits, 8, "sigmoid", correction(num_experts, dtype), 8, 4, True, 2.5


CASES = OperatorCases(
    operator=lambda *inputs: torch.ops.mindspeed.moe_router(*inputs)[0],
    naive=lambda *inputs: route(*inputs)[0],
    covers=("moe_router", "moe_router_backward"),
    cases={
        "small": lambda dtype: (random(3, 8, dtype=dtype), 2),
        **{
            f"top {top_k} of {experts}, {score}": lambda dtype, top_k=top_k, n=experts, score=score: (
                random(17, n, dtype=dtype, scale=2.0),
                top_k,
                score,
            )
            for top_k, experts in ((1, 1), (1, 8), (2, 8), (6, 33), (8, 8))
            for score in ("softmax", "sigmoid")
        },
        "not renormalised": lambda dtype: (
            random(9, 16, dtype=dtype),
            4,
            "softmax",
            None,
            1,
            1,
            False,
            16.0,
        ),
        "groups by their best": lambda dtype: (
            random(9, 32, dtype=dtype),
            6,
            "softmax",
            None,
            8,
            3,
            False,
        ),
        "correction bias": lambda dtype: (
            random(9, 16, dtype=dtype),
            3,
            "sigmoid",
            correction(16, dtype),
        ),
        "DeepSeek-V3": lambda dtype: deepseek(33, 64, dtype),
        "large values": lambda dtype: (random(9, 16, dtype=dtype, scale=50.0), 2, "softmax"),
        "empty": lambda dtype: (random(0, 8, dtype=dtype), 2),
        "strided": lambda dtype: (strided(5, 3, 8, dtype=dtype)[:, 1].detach().requires_grad_(), 2),
    },
    bench={
        "4096, 2 of 8": lambda dtype: (random(4096, 8, dtype=dtype), 2),
        "4096, DeepSeek-V3": lambda dtype: deepseek(4096, 256, dtype),
    },
)
