"""Fused operators, differentiable, as plain functions.

The same operators are ``torch.ops.mindspeed.*``; these are thin, typed doors to them. Each takes
float32, bfloat16, float16 or float64, computes in float32 (float64 for float64) and rounds once at
the end. Wrong shapes, dtypes or devices raise ValueError.
"""

import torch
from torch import Tensor

import mindspeed_core  # noqa: F401  (loads libmindspeed, which registers the operators)
from mindspeed_core.ops import flash_attention
from mindspeed_core.ops.linear_cross_entropy import (
    LossAndCounts,
    label_log_probabilities,
    linear_cross_entropy,
    linear_cross_entropy_and_counts,
)
from mindspeed_core.ops.scaled_dot_product_attention import scaled_dot_product_attention

__all__ = [
    "LossAndCounts",
    "add_rms_norm",
    "cross_entropy",
    "flash_attention",
    "geglu",
    "label_log_probabilities",
    "layer_norm",
    "linear_cross_entropy",
    "linear_cross_entropy_and_counts",
    "rms_norm",
    "rotary_embedding",
    "scaled_dot_product_attention",
    "swiglu",
]


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """``x / sqrt(mean(x^2) + eps) * weight`` over the last dim: x [..., N], weight [N]."""
    return torch.ops.mindspeed.rms_norm(x, weight, eps)


def add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """``(rms_norm(sum), sum)`` with ``sum = x + residual``, in one pass: x, residual [..., N], weight [N]."""
    return torch.ops.mindspeed.add_rms_norm(x, residual, weight, eps)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` over the last dim: x [..., N], weight, bias [N]."""
    return torch.ops.mindspeed.layer_norm(x, weight, bias, eps)


def rotary_embedding(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None = None,
    interleaved: bool = False,
) -> Tensor:
    """Turn each pair of a head vector by its token's angle.

    x [B, S, H, D] or [T, H, D]; cos, sin float32 [P, R/2] with R at most D, the rest passes through;
    positions int32, one a token: its row of the tables (None: its place in the sequence). Pairs are
    (i, i + R/2), or with ``interleaved`` (2i, 2i+1). Differentiable in x.
    """
    return torch.ops.mindspeed.rotary_embedding(x, cos, sin, positions, interleaved)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """``silu(gate) * up``: gate, up [..., F]; halves of a packed [..., 2F] are read in place."""
    return torch.ops.mindspeed.swiglu(gate, up)


def geglu(gate: Tensor, up: Tensor) -> Tensor:
    """``gelu(gate) * up`` with gelu's tanh form: gate, up [..., F]."""
    return torch.ops.mindspeed.geglu(gate, up)


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    ignore_index: int = -100,
    z_loss: float = 0.0,
    label_smoothing: float = 0.0,
    softcap: float = 0.0,
) -> Tensor:
    """One loss a row, float32, 0 where the label is ignore_index: logits [T, V], labels int64 [T].

    The formula is that of ``linear_cross_entropy``, which is the operator for the last layer of a language model: it
    never holds the logits.
    """
    return torch.ops.mindspeed.cross_entropy(
        logits, labels, ignore_index, z_loss, label_smoothing, softcap
    )
