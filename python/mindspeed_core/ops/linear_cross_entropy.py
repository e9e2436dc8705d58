"""The output layer and the cross entropy in one operator that never holds all logits."""

from typing import Literal

import torch
from torch import Tensor

import mindspeed_core  # noqa: F401  (loads libmindspeed, which registers the operators)

__all__ = ["linear_cross_entropy"]


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    ignore_index: int = -100,
    reduction: Literal["mean", "sum"] = "mean",
    z_loss: float = 0.0,
) -> Tensor:
    """Cross entropy of the logits ``hidden @ weight.T``, plus ``z_loss * log_sum_exp(logits)^2``.

    hidden [.., N] and weight [V, N] of one float dtype; labels int64 [..], shifted: labels[t] is what t predicts,
    ``ignore_index`` where nothing is. Works on a chunk of tokens at a time, and computes the gradients while a chunk's
    logits are there. Returns a float32 scalar: the mean over valid tokens (0 when there is none), or the sum.
    Raises ValueError on other shapes and dtypes, IndexError on a label outside [0, V).
    """
    if reduction not in ("mean", "sum"):
        raise ValueError(
            f"linear_cross_entropy: reduction must be 'mean' or 'sum', got {reduction!r}"
        )
    loss_sum, num_valid = torch.ops.mindspeed.linear_cross_entropy(
        hidden.flatten(0, -2), weight, labels.flatten(), ignore_index, z_loss
    )
    return loss_sum / num_valid.clamp(min=1) if reduction == "mean" else loss_sum
