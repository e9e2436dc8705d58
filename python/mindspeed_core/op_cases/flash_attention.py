"""Flash attention."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mindspeed_core.op_cases import OperatorCases, random
from mindspeed_core.ops.flash_attention import alibi_slopes


@dataclass(frozen=True)
class Settings:
    """What the plain formulas need to know besides q, k, v and sinks."""

    scale: float
    slopes: Tensor | None
    left: int
    right: int
    softcap: float

    def distances(self, queries: int, keys: int) -> Tensor:
        """Place of the query among the keys minus place of the key [S, L]."""
        return torch.arange(queries)[:, None] + (keys - queries) - torch.arange(keys)

    def hidden(self, queries: int, keys: int) -> Tensor:
        """True where a query does not see a key [S, L]."""
        distances = self.distances(queries, keys)
        hidden = torch.zeros(queries, keys, dtype=torch.bool)
        if self.left >= 0:
            hidden |= distances > self.left
        if self.right >= 0:
            hidden |= distances < -self.right
        return hidden


def scores_of(q: Tensor, k: Tensor, settings: Settings) -> tuple[Tensor, Tensor | None]:
    """Scores [H, S, L], -inf where not seen, and the tanh of the soft-cap if there is one."""
    scores, bend = torch.einsum("shd,lhd->hsl", q, k) * settings.scale, None
    if settings.softcap > 0:
        bend = (scores / settings.softcap).tanh()
        scores = settings.softcap * bend
    if settings.slopes is not None:
        distances = settings.distances(len(q), len(k)).abs()
        scores = scores - settings.slopes.to(scores.dtype)[:, None, None] * distances
    return scores.masked_fill(settings.hidden(len(q), len(k)), -torch.inf), bend


def with_sinks(scores: Tensor, sinks: Tensor | None) -> Tensor:
    """Scores with the sinks as one more column, -inf where there are none."""
    heads, queries, _ = scores.shape
    column = torch.full((heads,), -torch.inf) if sinks is None else sinks
    column = column.to(scores.dtype)[:, None, None].expand(heads, queries, 1)
    return torch.cat([scores, column], -1)


def one_sequence(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None, settings: Settings):
    """Attention of a sequence with its whole score matrix: q [S, H, D], k, v [L, H, ..]."""
    scores = with_sinks(scores_of(q, k, settings)[0], sinks)
    # a query that sees nothing: zeros, where softmax would give NaN
    blind = scores.isneginf().all(-1, keepdim=True)
    weights = scores.masked_fill(blind, 0).softmax(-1).masked_fill(blind, 0)
    return torch.einsum("hsl,lhe->she", weights[..., :-1], v)


class SavedOutput(torch.autograd.Function):
    """The same, but backward starts from the rounded output and log-sum-exp, as flash attention's formula has it.

    delta = sum(dO * O) replaces softmax's row sum; that rounds differently from the plain formula even without tiles.
    """

    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None, settings: Settings):
        """Whole scores, in float32 at least."""
        scores, _ = scores_of(wide(q), wide(k), settings)
        lse = with_sinks(scores, sinks).logsumexp(-1, keepdim=True)
        probabilities = (scores - finite(lse)).exp()
        out = torch.einsum("hsl,lhe->she", probabilities, wide(v)).to(v.dtype)
        ctx.save_for_backward(q, k, v, sinks, out, lse)
        ctx.settings = settings
        return out

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        """P = e^(S - lse), dS = P (dP - delta), and -e^(sink - lse) delta for the sink."""
        q, k, v, sinks, out, lse = ctx.saved_tensors
        scores, bend = scores_of(wide(q), wide(k), ctx.settings)
        probabilities = (scores - finite(lse)).exp()
        delta = (wide(grad) * wide(out)).sum(-1).t().unsqueeze(-1)
        grad_p = torch.einsum("she,lhe->hsl", wide(grad), wide(v))
        grad_scores = probabilities * (grad_p - delta)
        if bend is not None:
            grad_scores = grad_scores * (1 - bend**2)
        grad_scores = grad_scores * ctx.settings.scale
        grad_q = torch.einsum("hsl,lhd->shd", grad_scores, wide(k)).to(q.dtype)
        grad_k = torch.einsum("hsl,shd->lhd", grad_scores, wide(q)).to(k.dtype)
        grad_v = torch.einsum("hsl,she->lhe", probabilities, wide(grad)).to(v.dtype)
        if sinks is None:
            return grad_q, grad_k, grad_v, None, None
        share = (sinks[:, None, None] - finite(lse)).exp()
        return grad_q, grad_k, grad_v, -(share * delta).sum((1, 2)), None


def wide(x: Tensor) -> Tensor:
    """In the arithmetic of the operators: float32, or float64 for float64."""
    return x.double() if x.dtype == torch.float64 else x.float()


def finite(lse: Tensor) -> Tensor:
    """Without the -inf of queries that see nothing, whose scores are -inf too."""
    return lse.clamp(min=torch.finfo(lse.dtype).min)


def by_sequence(
    attend: Callable[[Tensor, Tensor, Tensor, Tensor | None, Settings], Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    seed: int = 0,
    slopes: Tensor | None = None,
    sinks: Tensor | None = None,
    left: int = -1,
    right: int = -1,
    softcap: float = 0.0,
) -> Tensor:
    """Attention of each batch row or document by itself, key/value heads repeated."""
    assert dropout == 0
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    settings = Settings(scale, slopes, left, 0 if causal else right, softcap)
    group = q.shape[-2] // k.shape[-2]
    k, v = k.repeat_interleave(group, -2), v.repeat_interleave(group, -2)
    if cu_seqlens_q is None:
        rows = zip(q, k, v, strict=True)
        return torch.stack([attend(*row, sinks, settings) for row in rows])
    assert cu_seqlens_k is not None
    pieces = zip(
        q.tensor_split(cu_seqlens_q[1:-1].tolist()),
        k.tensor_split(cu_seqlens_k[1:-1].tolist()),
        v.tensor_split(cu_seqlens_k[1:-1].tolist()),
        strict=True,
    )
    return torch.cat([attend(*piece, sinks, settings) for piece in pieces])


naive = partial(by_sequence, one_sequence)
saved_output = partial(by_sequence, SavedOutput.apply)


@functools.cache
def torch_mask(
    tokens: int, documents: tuple[int, ...], slopes: tuple[float, ...], left: int, right: int
) -> Tensor:
    """The mask, or the bias where there are slopes, that tells torch's attention what ours knows by its arguments."""
    settings = Settings(1.0, None, left, right, 0.0)
    document = torch.bucketize(torch.arange(tokens), torch.tensor(documents), right=True)
    seen = ~settings.hidden(tokens, tokens) & (document[:, None] == document)
    if not slopes:
        return seen
    bias = -torch.tensor(slopes)[:, None, None] * settings.distances(tokens, tokens).abs()
    return bias.masked_fill(~seen, -torch.inf)


def torch_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor | None,
    _cu_seqlens_k: Tensor | None,
    causal: bool,
    _scale: None = None,
    _dropout: float = 0.0,
    _seed: int = 0,
    slopes: Tensor | None = None,
    _sinks: None = None,
    left: int = -1,
    right: int = -1,
) -> Tensor:
    """torch's scaled_dot_product_attention on the bench's inputs; a mask is made once and not counted."""
    packed = cu_seqlens_q is not None
    if packed or slopes is not None or left >= 0:
        documents = tuple(cu_seqlens_q.tolist()) if cu_seqlens_q is not None else ()
        numbers = () if slopes is None else tuple(slopes.tolist())
        tokens = len(q) if packed else q.shape[1]
        mask = torch_mask(tokens, documents, numbers, left, 0 if causal else right)
        causal = False
    else:
        mask = None
    query, key, value = ((x.unsqueeze(0) if packed else x).transpose(1, 2) for x in (q, k, v))
    attended = scaled_dot_product_attention(query, key, value, mask, is_causal=causal)
    attended = attended.transpose(1, 2)
    return attended[0] if packed else attended


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


def features(
    dtype: torch.dtype,
    num_heads: int,
    *,
    causal: bool = False,
    alibi: bool = False,
    sinks: bool = False,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
) -> tuple[object, ...]:
    """The operator's arguments from ``causal`` on."""
    wide_dtype = torch.float64 if dtype == torch.float64 else torch.float32
    return (
        causal,
        None,
        0.0,
        0,
        alibi_slopes(num_heads) if alibi else None,
        random(num_heads, dtype=wide_dtype) if sinks else None,
        *window,
        softcap,
    )


EVERY_FEATURE: dict[str, Any] = {"alibi": True, "sinks": True, "softcap": 2.0}

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
        "small, every feature": lambda dtype: (
            *heads((1, 4), 5, keys=6)(dtype),
            *NONE,
            *features(dtype, 2, window=(2, 1), **EVERY_FEATURE),
        ),
        **{
            name: lambda dtype, chosen=chosen: (
                *heads((1, 170), 16, 4, 2)(dtype),
                *NONE,
                *features(dtype, 4, **chosen),
            )
            for name, chosen in {
                "ALiBi": {"alibi": True},
                "ALiBi, causal": {"alibi": True, "causal": True},
                "sinks": {"sinks": True},
                "soft-cap": {"softcap": 1.5, "causal": True},
                "window": {"window": (20, 10)},
                "window to the left": {"window": (130, -1)},
                "window to the right": {"window": (-1, 3)},
                "window, causal": {"window": (40, 5), "causal": True},
                "own key": {"window": (0, 0)},
            }.items()
        },
        "window beside the keys": lambda dtype: (
            *heads((1, 170), 16, keys=40)(dtype),
            *NONE,
            *features(dtype, 2, window=(3, 5), sinks=True),
        ),
        "several tasks a head": lambda dtype: (
            *heads((1, 600), 16, 4, 2)(dtype),
            *NONE,
            *features(dtype, 4, causal=True),
        ),
        "several tasks a head, window": lambda dtype: (
            *heads((1, 600), 16, 4, 2)(dtype),
            *NONE,
            *features(dtype, 4, window=(50, 20)),
        ),
        "several tasks a head, every feature": lambda dtype: (
            *heads((1, 530), 24, 4, 2, keys=600, value_size=16)(dtype),
            *NONE,
            *features(dtype, 4, causal=True, window=(300, -1), **EVERY_FEATURE),
        ),
        "packed, every feature": lambda dtype: (
            *heads((150,), 48, 6, 2, keys=160, value_size=32)(dtype),
            bounds(0, 101, 0, 2, 47, 0),
            bounds(5, 101, 0, 1, 53, 0),
            *features(dtype, 6, causal=True, window=(60, 0), **EVERY_FEATURE),
        ),
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
    peers={"sdpa": torch_attention},
    bench={
        "1x1024x8x64, causal": lambda dtype: (*heads((1, 1024), 64, 8, 8)(dtype), *NONE, True),
        "1x4096x8x64, causal": lambda dtype: (*heads((1, 4096), 64, 8, 8)(dtype), *NONE, True),
        "1x4096x4x128, causal": lambda dtype: (*heads((1, 4096), 128, 4, 4)(dtype), *NONE, True),
        "1x1024x8x64, full": lambda dtype: (*heads((1, 1024), 64, 8, 8)(dtype), *NONE, False),
        "8 documents of 512, 8x64": lambda dtype: (
            *heads((4096,), 64, 8, 8)(dtype),
            bounds(*[512] * 8),
            bounds(*[512] * 8),
            True,
        ),
        "1x4096x8x64, ALiBi": lambda dtype: (
            *heads((1, 4096), 64, 8, 8)(dtype),
            *NONE,
            *features(dtype, 8, causal=True, alibi=True)[:-1],
        ),
        "1x4096x8x64, window 512": lambda dtype: (
            *heads((1, 4096), 64, 8, 8)(dtype),
            *NONE,
            *features(dtype, 8, causal=True, window=(511, 0))[:-1],
        ),
    },
)
