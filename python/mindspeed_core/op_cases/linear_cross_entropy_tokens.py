"""Output layer and cross entropy in one, a token: losses and log-probabilities of the labels."""

from typing import Any

import torch
from torch import Tensor

from mindspeed_core.op_cases import OperatorCases, linear_cross_entropy
from mindspeed_core.op_cases.linear_cross_entropy import token_losses


def fused(*inputs: Any) -> tuple[Tensor, Tensor]:
    """The operator's differentiable results."""
    losses, log_probabilities, _ = torch.ops.mindspeed.linear_cross_entropy_tokens(*inputs)
    return losses, log_probabilities


def naive(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    ignore_index: int = -100,
    z_loss: float = 0.0,
    label_smoothing: float = 0.0,
    softcap: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Losses from all logits; a log-probability is minus the loss without smoothing and z-loss."""
    return (
        token_losses(hidden, weight, labels, ignore_index, z_loss, label_smoothing, softcap),
        -token_losses(hidden, weight, labels, ignore_index, 0.0, 0.0, softcap),
    )


CASES = OperatorCases(
    operator=fused,
    naive=naive,
    in_place=(lambda *inputs: fused(*inputs)[0], token_losses),  # the bench: one result, as eager
    same_on_any_threads=False,
    covers=(
        "linear_cross_entropy_tokens",
        "linear_cross_entropy_tokens_forward",
        "linear_cross_entropy_tokens_backward",
    ),
    cases=linear_cross_entropy.CASES.cases,
    bench={
        name: linear_cross_entropy.CASES.bench[name] for name in ("1024x512x32000", "everything")
    },
)
