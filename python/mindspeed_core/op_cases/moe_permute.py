"""Tokens sorted by expert."""

import torch
from torch import Tensor

from mindspeed_core.op_cases import ROW_SIZES, OperatorCases, random, strided, total_bytes


def naive(x: Tensor, experts: Tensor, num_experts: int) -> Tensor:
    """The sorted rows, by index."""
    slots = experts.flatten().argsort(stable=True)
    return x[slots // experts.shape[1]]


def choices(tokens: int, top_k: int, num_experts: int) -> Tensor:
    """Experts of each token: distinct ones, and not all equally busy."""
    generator = torch.Generator().manual_seed(17)
    popularity = 1.0 / torch.arange(1, num_experts + 1)
    return torch.multinomial(popularity.expand(tokens, -1), top_k, generator=generator)


CASES = OperatorCases(
    operator=lambda *inputs: torch.ops.mindspeed.moe_permute(*inputs)[0],
    naive=naive,
    covers=("moe_permute", "moe_permute_backward"),
    cases={
        "small": lambda dtype: (random(4, 5, dtype=dtype), choices(4, 2, 3), 3),
        **{
            f"size {size}": lambda dtype, size=size: (
                random(13, size, dtype=dtype),
                choices(13, 3, 8),
                8,
            )
            for size in ROW_SIZES
        },
        "idle experts": lambda dtype: (random(6, 9, dtype=dtype), torch.full((6, 1), 2), 5),
        "empty": lambda dtype: (random(0, 9, dtype=dtype), torch.zeros(0, 2, dtype=torch.long), 4),
        "strided": lambda dtype: (
            strided(7, 2, 33, dtype=dtype)[:, 1].detach().requires_grad_(),
            choices(7, 2, 4),
            4,
        ),
    },
    bench={
        "4096x1024, 2 of 8": lambda dtype: (
            random(4096, 1024, dtype=dtype),
            choices(4096, 2, 8),
            8,
        ),
    },
    bytes_moved=lambda x, experts, _: 2 * (1 + experts.shape[1]) * total_bytes(x),
)
