"""Output layer and cross entropy in one."""

from typing import Any

import torch
from torch import Tensor

from mindspeed_core.op_cases import OperatorCases, cross_entropy, random
from mindspeed_core.op_cases.cross_entropy import SETTINGS, labels


def token_losses(hidden: Tensor, weight: Tensor, labels: Tensor, *settings: Any) -> Tensor:
    """All logits, then one loss a token in float32 (float64 for float64)."""
    wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    return cross_entropy.naive((hidden @ weight.t()).to(wide), labels, *settings)


def naive(hidden: Tensor, weight: Tensor, labels: Tensor, *settings: Any) -> Tensor:
    """The sum of all tokens' losses."""
    return token_losses(hidden, weight, labels, *settings).sum()


def layer(tokens: int, size: int, vocabulary: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Hidden states, and the output layer's weight."""
    return (
        random(tokens, size, dtype=dtype),
        random(vocabulary, size, dtype=dtype, scale=2 * size**-0.5),
    )


def all_strided(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Both operands transposed in memory."""
    hidden = random(24, 30, dtype=dtype, grad=False).t().requires_grad_()
    weight = random(24, 47, dtype=dtype, grad=False, scale=0.4).t().requires_grad_()
    return hidden, weight


CASES = OperatorCases(
    operator=lambda *inputs: torch.ops.mindspeed.linear_cross_entropy(*inputs)[0],
    naive=naive,
    same_on_any_threads=False,
    covers=("linear_cross_entropy", "linear_cross_entropy_forward"),
    cases={
        "small": lambda dtype: (*layer(3, 4, 7, dtype), labels(3, 7)),
        **{
            f"{tokens}x{size}x{vocabulary}": lambda dtype, shape=(tokens, size, vocabulary): (
                *layer(*shape, dtype),
                labels(shape[0], shape[2]),
            )
            for tokens, size, vocabulary in ((1, 1, 2), (31, 33, 257), (65, 16, 1000))
        },
        "several chunks": lambda dtype: (
            *layer(270, 4, 32_003, dtype),  # 262 tokens a chunk
            labels(270, 32_003, -100),
        ),
        "ignored": lambda dtype: (*layer(10, 8, 33, dtype), labels(10, 33, -100)),
        "another ignore_index": lambda dtype: (*layer(10, 8, 33, dtype), labels(10, 33, 5), 5),
        "all ignored": lambda dtype: (*layer(3, 8, 9, dtype), torch.full((3,), -100)),
        **{
            name: lambda dtype, settings=settings: (
                *layer(4, 3, 23, dtype),
                labels(4, 23, -100),
                *settings,
            )
            for name, settings in SETTINGS.items()
        },
        "empty": lambda dtype: (*layer(0, 8, 9, dtype), labels(0, 9)),
        "strided": lambda dtype: (*all_strided(dtype), labels(30, 47)),
    },
    bench={
        name: lambda dtype, settings=settings: (
            *layer(1024, 512, 32000, dtype),
            labels(1024, 32000),
            *settings,
        )
        for name, settings in {
            "1024x512x32000": (),
            "label smoothing": SETTINGS["label smoothing"],
            "softcap": SETTINGS["softcap"],
            "everything": SETTINGS["everything"],
        }.items()
    },
)
