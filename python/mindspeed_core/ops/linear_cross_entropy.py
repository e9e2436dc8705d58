"""The output layer and the cross entropy in one operator that never holds all logits."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

import mindspeed_core  # noqa: F401  (loads libmindspeed, which registers the operators)

__all__ = [
    "LossAndCounts",
    "label_log_probabilities",
    "linear_cross_entropy",
    "linear_cross_entropy_and_counts",
]


class LossAndCounts(NamedTuple):
    """A sum of losses, and what divides it."""

    loss_sum: Tensor
    """float32 scalar, differentiable"""
    num_valid: Tensor
    """int64 scalar: tokens whose label is not ignored"""
    num_correct: Tensor
    """int64 scalar: those of them no logit of which is larger than the label's"""


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    ignore_index: int = -100,
    reduction: Literal["mean", "sum", "none"] = "mean",
    z_loss: float = 0.0,
    label_smoothing: float = 0.0,
    softcap: float = 0.0,
) -> Tensor:
    """Cross entropy of the logits ``hidden @ weight.T``, never holding more than a chunk of them.

    With x the logits of a token, ``s = softcap * tanh(x / softcap)`` (s = x without softcap), lse the logarithm of the
    sum of e^s and y the label:
    ``(1 - label_smoothing) * (lse - s_y) + label_smoothing * mean(lse - s) + z_loss * lse^2``.

    hidden [.., N] and weight [V, N] of one float dtype; labels int64 [..], shifted: labels[t] is what t predicts,
    ``ignore_index`` where nothing is. Returns float32 (float64 for float64): the mean over valid tokens (0 when there
    is none), the sum, or with ``reduction="none"`` one loss a token, shaped as labels and 0 where ignored.
    Mean and sum compute the gradients in forward, while a chunk's logits are there; "none" computes the logits again in
    backward, because each token has an upstream gradient of its own.
    Raises ValueError on other shapes and dtypes and on a setting out of its range, IndexError on a label
    outside [0, V).
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(
            f"linear_cross_entropy: reduction must be 'mean', 'sum' or 'none', got {reduction!r}"
        )
    if reduction == "none":
        losses, _, _ = torch.ops.mindspeed.linear_cross_entropy_tokens(
            hidden.flatten(0, -2),
            weight,
            labels.flatten(),
            ignore_index,
            z_loss,
            label_smoothing,
            softcap,
        )
        return losses.view(labels.shape)
    loss_sum, num_valid, _ = linear_cross_entropy_and_counts(
        hidden, weight, labels, ignore_index, z_loss, label_smoothing, softcap
    )
    return loss_sum / num_valid.clamp(min=1) if reduction == "mean" else loss_sum


def linear_cross_entropy_and_counts(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    ignore_index: int = -100,
    z_loss: float = 0.0,
    label_smoothing: float = 0.0,
    softcap: float = 0.0,
) -> LossAndCounts:
    """The sum of ``linear_cross_entropy`` with the number of valid tokens and of correctly predicted ones."""
    return LossAndCounts(
        *torch.ops.mindspeed.linear_cross_entropy(
            hidden.flatten(0, -2),
            weight,
            labels.flatten(),
            ignore_index,
            z_loss,
            label_smoothing,
            softcap,
        )
    )


def label_log_probabilities(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    ignore_index: int = -100,
    softcap: float = 0.0,
) -> Tensor:
    """Logarithm of the softmax of ``hidden @ weight.T`` at each label, as post-training's losses need it.

    hidden [.., N] and weight [V, N] of one float dtype; labels int64 [..]. Returns float32 (float64 for float64),
    shaped as labels, 0 where the label is ``ignore_index``; differentiable in hidden and weight. The logits are never
    all held: backward computes them again, a chunk at a time. Raises as ``linear_cross_entropy`` does.
    """
    _, log_probabilities, _ = torch.ops.mindspeed.linear_cross_entropy_tokens(
        hidden.flatten(0, -2), weight, labels.flatten(), ignore_index, softcap=softcap
    )
    return log_probabilities.view(labels.shape)
