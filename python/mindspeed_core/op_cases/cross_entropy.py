"""Cross entropy of given logits."""

import torch

from mindspeed_core.op_cases import OperatorCases, random, total_bytes


def naive(logits: torch.Tensor, labels: torch.Tensor, ignore_index: int = -100) -> torch.Tensor:
    """torch's own, one loss a row."""
    losses = torch.nn.functional.cross_entropy(
        logits, labels, ignore_index=ignore_index, reduction="none"
    )
    return losses.to(torch.float64 if logits.dtype == torch.float64 else torch.float32)


def labels(rows: int, vocabulary: int, ignored: int | None = None) -> torch.Tensor:
    """Labels over the whole vocabulary, every third one ignored if asked."""
    result = torch.arange(rows) * 7919 % vocabulary
    if ignored is not None:
        result[::3] = ignored
    return result


CASES = OperatorCases(
    operator=torch.ops.mindspeed.cross_entropy,
    naive=naive,
    covers=("cross_entropy", "cross_entropy_forward", "cross_entropy_backward"),
    cases={
        **{
            f"vocabulary {size}": lambda dtype, size=size: (
                random(9, size, dtype=dtype, scale=3.0),
                labels(9, size),
            )
            for size in (1, 2, 31, 33, 257, 5000)
        },
        "ignored": lambda dtype: (random(10, 33, dtype=dtype), labels(10, 33, -100)),
        "another ignore_index": lambda dtype: (random(10, 33, dtype=dtype), labels(10, 33, 5), 5),
        "all ignored": lambda dtype: (random(3, 8, dtype=dtype), torch.full((3,), -100)),
        "empty": lambda dtype: (random(0, 8, dtype=dtype), labels(0, 8)),
        "strided": lambda dtype: (
            random(33, 6, dtype=dtype, grad=False).t().requires_grad_(),
            labels(6, 33),
        ),
    },
    bench={
        "1024x32000": lambda dtype: (random(1024, 32000, dtype=dtype), labels(1024, 32000)),
    },
    bytes_moved=lambda logits, labels: 3 * total_bytes(logits),
)
