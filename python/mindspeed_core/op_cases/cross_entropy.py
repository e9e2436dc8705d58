"""Cross entropy of given logits."""

import torch
from torch import Tensor

from mindspeed_core.op_cases import OperatorCases, random, total_bytes


def naive(
    logits: Tensor,
    labels: Tensor,
    ignore_index: int = -100,
    z_loss: float = 0.0,
    label_smoothing: float = 0.0,
    softcap: float = 0.0,
) -> Tensor:
    """torch's own, one loss a row, with the softcap before it and the z-loss added."""
    if softcap > 0:
        logits = softcap * (logits / softcap).tanh()
    losses = torch.nn.functional.cross_entropy(
        logits,
        labels,
        ignore_index=ignore_index,
        reduction="none",
        label_smoothing=label_smoothing,
    )
    losses = losses.to(torch.float64 if logits.dtype == torch.float64 else torch.float32)
    if z_loss > 0:
        losses = losses + z_loss * (logits.logsumexp(-1) * (labels != ignore_index)).square()
    return losses


def labels(rows: int, vocabulary: int, ignored: int | None = None) -> Tensor:
    """Labels over the whole vocabulary, every third one ignored if asked."""
    result = torch.arange(rows) * 7919 % vocabulary
    if ignored is not None:
        result[::3] = ignored
    return result


# ignore_index, z_loss, label_smoothing, softcap
SETTINGS = {
    "z loss": (-100, 0.01, 0.0, 0.0),
    "label smoothing": (-100, 0.0, 0.1, 0.0),
    "only smoothing": (-100, 0.0, 1.0, 0.0),
    "softcap": (-100, 0.0, 0.0, 2.5),
    "everything": (-100, 0.01, 0.1, 2.5),
}

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
        **{
            name: lambda dtype, settings=settings: (
                random(4, 33, dtype=dtype, scale=3.0),
                labels(4, 33, -100),
                *settings,
            )
            for name, settings in SETTINGS.items()
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
        "everything": lambda dtype: (
            random(1024, 32000, dtype=dtype),
            labels(1024, 32000),
            *SETTINGS["everything"],
        ),
    },
    bytes_moved=lambda logits, *others: 3 * total_bytes(logits),
)
