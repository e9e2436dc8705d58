"""Flash attention."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from mindspeed_core.op_cases import OperatorCases, random


def one_sequence(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Tensor:
    """Attention of a sequence with its whole score matrix: q [S, H, D], k, v [L, H, ..]."""
    scores = torch.einsum("shd,lhd->hsl", q, k) * scale
    if causal:
        seen = torch.ones(len(q), len(k), dtype=torch.bool).tril(len(k) - len(q))
        scores = scores.masked_fill(~seen, -torch.inf)
        # a query that sees no key: zeros, where softmax would give NaN
        blind = ~seen.any(-1, keepdim=True)
        weights = scores.masked_fill(blind, 0).softmax(-1).masked_fill(blind, 0)
    else:
        weights = scores.softmax(-1)
    return torch.einsum("hsl,lhe->she", weights, v)


class SavedOutput(torch.autograd.Function):
    """The same, but backward starts from the rounded output and log-sum-exp, as flash attention's formula has it.

    delta = sum(dO * O) replaces softmax's row sum; that rounds differently from the plain formula even without tiles.
    """

    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Tensor:
        """Whole scores, in float32 at least."""
        probabilities, lse = SavedOutput.probabilities(q, k, causal, scale)
        out = torch.einsum("hsl,lhe->she", probabilities, wide(v)).to(v.dtype)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.settings = (causal, scale)
        return out

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        """P = e^(S - lse), dS = P (dP - delta)."""
        q, k, v, out, lse = ctx.saved_tensors
        causal, scale = ctx.settings
        probabilities, _ = SavedOutput.probabilities(q, k, causal, scale, lse)
        delta = (wide(grad) * wide(out)).sum(-1).t().unsqueeze(-1)
        grad_p = torch.einsum("she,lhe->hsl", wide(grad), wide(v))
        grad_scores = probabilities * (grad_p - delta) * scale
        grad_q = torch.einsum("hsl,lhd->shd", grad_scores, wide(k)).to(q.dtype)
        grad_k = torch.einsum("hsl,shd->lhd", grad_scores, wide(q)).to(k.dtype)
        grad_v = torch.einsum("hsl,she->lhe", probabilities, wide(grad)).to(v.dtype)
        return grad_q, grad_k, grad_v, None, None

    @staticmethod
    def probabilities(
        q: Tensor, k: Tensor, causal: bool, scale: float, lse: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attention weights from scores and their log-sum-exp."""
        scores = torch.einsum("shd,lhd->hsl", wide(q), wide(k)) * scale
        if causal:
            seen = torch.ones(len(q), len(k), dtype=torch.bool).tril(len(k) - len(q))
            scores = scores.masked_fill(~seen, -torch.inf)
        lse = scores.logsumexp(-1, keepdim=True) if lse is None else lse
        return (scores - lse.clamp(min=torch.finfo(lse.dtype).min)).exp(), lse


def wide(x: Tensor) -> Tensor:
    """In the arithmetic of the operators: float32, or float64 for float64."""
    return x.double() if x.dtype == torch.float64 else x.float()


def by_sequence(
    attend: Callable[[Tensor, Tensor, Tensor, bool, float], Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Attention of each batch row or document by itself, key/value heads repeated."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    group = q.shape[-2] // k.shape[-2]
    k, v = k.repeat_interleave(group, -2), v.repeat_interleave(group, -2)
    if cu_seqlens_q is None:
        rows = zip(q, k, v, strict=True)
        return torch.stack([attend(*row, causal, scale) for row in rows])
    assert cu_seqlens_k is not None
    pieces = zip(
        q.tensor_split(cu_seqlens_q[1:-1].tolist()),
        k.tensor_split(cu_seqlens_k[1:-1].tolist()),
        v.tensor_split(cu_seqlens_k[1:-1].tolist()),
        strict=True,
    )
    return torch.cat([attend(*piece, causal, scale) for piece in pieces])


naive = partial(by_sequence, one_sequence)
saved_output = partial(by_sequence, SavedOutput.apply)


def heads(
    tokens: tuple[int, ...],
    size: int,
    num_heads: int = 2,
    num_key_value_heads: int = 1,
    keys: int | None = None,
    value_size: int | None = None,
) -> Callable[[torch.dtype], tuple[Tensor, Tensor, Tensor]]:
    """A maker of q, k, v with ``tokens`` [S], or [B, S], queries of head size ``size``."""
    *batch, length = tokens
    keys = length if keys is None else keys
    value_size = size if value_size is None else value_size

    def make(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        return (
            random(*batch, length, num_heads, size, dtype=dtype),
            random(*batch, keys, num_key_value_heads, size, dtype=dtype, scale=0.9),
            random(*batch, keys, num_key_value_heads, value_size, dtype=dtype, scale=1.1),
        )

    return make


def packed_halves(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v side by side in one projection's output, its first two dims swapped."""
    qkv = random(11, 2, 3 * 4 * 20, dtype=dtype, grad=False).transpose(0, 1)
    q, k, v = (part.unflatten(-1, (4, 20)) for part in qkv.chunk(3, -1))
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_()


def bounds(*lengths: int) -> Tensor:
    """Cumulative lengths of documents."""
    return torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)


NONE = (None, None)

CASES = OperatorCases(
    operator=lambda *inputs: torch.ops.mindspeed.flash_attention(*inputs)[0],
    naive=naive,
    rounded=saved_output,
    covers=("flash_attention", "flash_attention_forward", "flash_attention_backward"),
    cases={
        "small": lambda dtype: (*heads((1, 3), 5)(dtype), *NONE, True),
        **{
            f"head size {size}": lambda dtype, size=size: (
                *heads((2, 37), size)(dtype),
                *NONE,
                True,
            )
            for size in (1, 16, 33, 64, 80, 128, 256)
        },
        **{
            f"{length} tokens, {'causal' if causal else 'full'}": lambda dtype, length=length, causal=causal: (
                *heads((1, length), 24)(dtype),
                *NONE,
                causal,
            )
            for length in (31, 97, 257)  # around the tiles' 96 queries and 128 keys
            for causal in (False, True)
        },
        "one query": lambda dtype: (*heads((2, 1), 16, keys=9)(dtype), *NONE, True),
        "more keys": lambda dtype: (*heads((1, 40), 16, keys=170)(dtype), *NONE, True),
        "fewer keys": lambda dtype: (*heads((1, 170), 16, keys=40)(dtype), *NONE, True),
        "groups": lambda dtype: (*heads((2, 50), 16, 6, 2)(dtype), *NONE, True),
        "values of another size": lambda dtype: (
            *heads((1, 50), 24, value_size=40)(dtype),
            *NONE,
            True,
        ),
        "own scale": lambda dtype: (*heads((1, 50), 16)(dtype), *NONE, True, 0.7),
        "packed documents": lambda dtype: (
            *heads((150,), 16, 4, 2)(dtype),
            bounds(0, 101, 0, 2, 47, 0),
            bounds(0, 101, 0, 2, 47, 0),
            True,
        ),
        "packed, other keys": lambda dtype: (
            *heads((50,), 16, keys=60)(dtype),
            bounds(20, 0, 30, 0),
            bounds(31, 5, 24, 0),
            False,
        ),
        "strided": lambda dtype: (*packed_halves(dtype), *NONE, True),
        "empty": lambda dtype: (*heads((0,), 16)(dtype), bounds(0, 0), bounds(0, 0), True),
    },
    bench={
        "1x1024x8x64, causal": lambda dtype: (*heads((1, 1024), 64, 8, 8)(dtype), *NONE, True),
        "1x4096x8x64, causal": lambda dtype: (*heads((1, 4096), 64, 8, 8)(dtype), *NONE, True),
        "1x1024x8x64, full": lambda dtype: (*heads((1, 1024), 64, 8, 8)(dtype), *NONE, False),
    },
)
