"""Fused operators, differentiable, as plain functions.

The same operators are ``torch.ops.mindspeed.*``; these are thin, typed doors to them. Each takes
float32, bfloat16, float16 or float64, computes in float32 (float64 for float64) and rounds once at
the end. Wrong shapes, dtypes or devices raise ValueError.
"""

from typing import Literal

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
from mindspeed_core.ops.moe import (
    grouped_gemm,
    grouped_gemm_weight_gradient_,
    moe_permute,
    moe_router,
    moe_unpermute,
)
from mindspeed_core.ops.scaled_dot_product_attention import scaled_dot_product_attention
from mindspeed_core.ops.seed import draw_seed

__all__ = [
    "LossAndCounts",
    "add_rms_norm",
    "bias_dropout_add",
    "bias_gelu",
    "cross_entropy",
    "flash_attention",
    "gated_activation",
    "geglu",
    "grouped_gemm",
    "grouped_gemm_weight_gradient_",
    "label_log_probabilities",
    "layer_norm",
    "linear_cross_entropy",
    "linear_cross_entropy_and_counts",
    "linear_weight_gradient_",
    "moe_permute",
    "moe_router",
    "moe_unpermute",
    "rms_norm",
    "rotary_embedding",
    "rotary_embedding_",
    "scaled_dot_product_attention",
    "scaled_masked_softmax",
    "swiglu",
]

GeluForm = Literal["tanh", "none"]


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


def rotary_embedding_(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None = None,
    interleaved: bool = False,
) -> Tensor:
    """``rotary_embedding`` over x's own memory; returns x. Differentiable: backward turns the gradient back.

    A leaf that requires a gradient, and an x whose elements share memory, raise ValueError.
    """
    torch.ops.mindspeed.rotary_embedding_(x, cos, sin, positions, interleaved)
    return x


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """``silu(gate) * up``: gate, up [..., F]; of one packed [..., 2F] use ``gated_activation``."""
    return torch.ops.mindspeed.swiglu(gate, up)


def geglu(gate: Tensor, up: Tensor, approximate: GeluForm = "tanh") -> Tensor:
    """``gelu(gate) * up``: gate, up [..., F]; gelu's tanh form, or with "none" the exact one."""
    return torch.ops.mindspeed.geglu(gate, up, approximate)


def gated_activation(
    gate_up: Tensor,
    bias: Tensor | None = None,
    activation: Literal["silu", "gelu", "gelu_tanh"] = "silu",
) -> Tensor:
    """``f(gate) * up`` with ``[gate, up] = gate_up + bias``: gate_up [..., 2F], bias [2F]; returns [..., F].

    SwiGLU with "silu", GeGLU with "gelu_tanh" (Gemma's) or the exact "gelu". Backward writes one packed gradient.
    """
    return torch.ops.mindspeed.gated_activation(gate_up, bias, activation)


def bias_gelu(x: Tensor, bias: Tensor | None = None, approximate: GeluForm = "tanh") -> Tensor:
    """``gelu(x + bias)``: x [..., F], bias [F]; gelu's tanh form, or with "none" the exact one."""
    return torch.ops.mindspeed.bias_gelu(x, bias, approximate)


def bias_dropout_add(
    x: Tensor,
    bias: Tensor | None,
    residual: Tensor,
    p: float,
    training: bool = True,
    seed: int | None = None,
) -> Tensor:
    """``residual + dropout(x + bias, p)``: x, residual [..., N], bias [N]; p in [0, 1).

    ``seed`` fixes which elements drop (None: drawn from torch's default generator). No mask is stored. Without
    ``training`` nothing drops.
    """
    p = p if training else 0.0
    if p > 0 and seed is None:
        seed = draw_seed()
    return torch.ops.mindspeed.bias_dropout_add(x, bias, residual, p, seed or 0)


def scaled_masked_softmax(
    x: Tensor, mask: Tensor | None = None, scale: float = 1.0, causal: bool = False
) -> Tensor:
    """``softmax(scale * x)`` over the last dim, masked scores left out: x [..., S, L].

    ``mask``: bool, broadcast to x, True where a score is left out. ``causal``: query i sees keys up to i + L - S. A
    query that sees none gives zeros.
    """
    return torch.ops.mindspeed.scaled_masked_softmax(x, mask, scale, causal)


def linear_weight_gradient_(grad_weight: Tensor, grad_out: Tensor, inputs: Tensor) -> None:
    """Add ``grad_out.T @ inputs`` to grad_weight [O, I] in one GEMM: grad_out [..., O], inputs [..., I].

    grad_weight is float32 or has the dtype of the other two.
    """
    torch.ops.mindspeed.linear_weight_gradient_(grad_weight, grad_out, inputs)


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
