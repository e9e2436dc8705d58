"""Exact attention whose memory grows with the sequence, not with its square.

``flash_attention`` is the function; ``FlashAttention`` is a self-attention layer with its projections, to be put in the
place of any other; ``alibi_slopes`` gives the slopes of ALiBi's paper. docs/operators/flash_attention.md tells more.
"""

import torch
from torch import Tensor, nn

import mindspeed_core  # noqa: F401  (loads libmindspeed, which registers the operators)
from mindspeed_core.ops.seed import draw_seed

__all__ = ["FlashAttention", "alibi_slopes", "flash_attention"]


def _arithmetic_dtype(x: Tensor) -> torch.dtype:
    """What the kernels compute in: float32, or float64 for float64."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def alibi_slopes(num_heads: int) -> Tensor:
    """The slopes of Press et al. 2022 (arXiv 2108.12409), float32 [num_heads].

    2^(-8/n), 2^(-16/n), ... for n heads if n is a power of two; else those of the power below, then every other one of
    the power above, as the paper's code has it. Raises ValueError for num_heads below 1.
    """
    if num_heads < 1:
        raise ValueError(f"alibi_slopes: num_heads must be at least 1, got {num_heads}")
    power = 2 ** (num_heads.bit_length() - 1)
    exponents = [(i + 1) / power for i in range(power)]
    exponents += [(i + 0.5) / power for i in range(num_heads - power)]
    return torch.tensor([2 ** (-8 * exponent) for exponent in exponents])


def flash_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
    alibi_slopes: Tensor | None = None,
    sinks: Tensor | None = None,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
) -> Tensor:
    """``dropout(softmax(softcap(scale * q k^T) - slope * distance)) v`` for each sequence and head.

    q [B, S, H, D], k [B, L, K, D], v [B, L, K, E], H a multiple of K: query head h uses key/value head h // (H // K).
    With ``cu_seqlens``, int32 [documents + 1] from 0 to T, the documents lie one after another in q [T, H, D], k and v,
    and each attends to itself alone; ``cu_seqlens_k`` where keys are cut elsewhere than queries. One dtype of float32,
    bfloat16, float16, float64; unit last stride, others free.

    Query i stands at place p = i + L - S among the keys. ``causal``: it sees keys j up to p. ``window_size`` (left,
    right): keys from p - left to p + right, -1 no bound. ``alibi_slopes`` float32 [H]: subtracts slope * abs(p - j).
    ``softcap`` c: a scaled score s becomes c * tanh(s / c); 0 is none. ``sinks`` [H], float32 (float64 for float64): a
    score a head that joins the softmax's denominator alone. ``scale``: 1 / sqrt(D) unless given. ``dropout`` drops
    attention weights with that probability; ``seed`` fixes which (None: drawn from torch's default generator).

    Returns [.., H, E], differentiable in q, k, v and sinks; a query that sees no key gives 0. Raises ValueError on
    other shapes, dtypes and values. ``torch.ops.mindspeed.flash_attention`` returns log-sum-exp too.
    """
    if dropout > 0 and seed is None:
        seed = draw_seed()
    if len(window_size) != 2:
        raise ValueError(f"flash_attention: window_size must be (left, right), got {window_size}")
    bounds_k = cu_seqlens if cu_seqlens_k is None else cu_seqlens_k
    out, _ = torch.ops.mindspeed.flash_attention(
        q,
        k,
        v,
        cu_seqlens,
        bounds_k,
        causal,
        scale,
        dropout,
        seed or 0,
        alibi_slopes,
        sinks,
        *window_size,
        softcap,
    )
    return out


class FlashAttention(nn.Module):
    """Multi-head self-attention with its projections: x [B, S, N] to [B, S, N].

    ``num_key_value_heads`` below ``num_heads`` shares each key/value head among a group of query heads. ``dropout``
    acts on the attention weights in training only. ``window_size`` and ``softcap`` as in ``flash_attention``; ``alibi``
    takes the slopes of ``alibi_slopes``; ``sinks`` learns a sink logit a head, 0 at first. Raises ValueError where the
    sizes do not divide.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        num_key_value_heads: int | None = None,
        dropout: float = 0.0,
        bias: bool = False,
        causal: bool = True,
        window_size: tuple[int, int] = (-1, -1),
        softcap: float = 0.0,
        alibi: bool = False,
        sinks: bool = False,
    ) -> None:
        """Make the four projections with torch's default initialisation of linear layers."""
        super().__init__()
        num_key_value_heads = num_heads if num_key_value_heads is None else num_key_value_heads
        if num_heads < 1 or hidden_size % num_heads:
            raise ValueError(
                f"FlashAttention: num_heads ({num_heads}) must divide hidden_size ({hidden_size})"
            )
        if num_key_value_heads < 1 or num_heads % num_key_value_heads:
            raise ValueError(
                f"FlashAttention: num_key_value_heads ({num_key_value_heads}) must divide "
                f"num_heads ({num_heads})"
            )
        if not 0 <= dropout < 1:
            raise ValueError(f"FlashAttention: dropout must be in [0, 1), got {dropout}")
        self.head_size = hidden_size // num_heads
        self.dropout = dropout
        self.causal = causal
        self.window_size = window_size
        self.softcap = softcap
        key_value_size = num_key_value_heads * self.head_size
        self.q_proj = nn.Linear(hidden_size, hidden_size, bias=bias)
        self.k_proj = nn.Linear(hidden_size, key_value_size, bias=bias)
        self.v_proj = nn.Linear(hidden_size, key_value_size, bias=bias)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias=bias)
        self.alibi = alibi
        self.sinks = nn.Parameter(torch.zeros(num_heads)) if sinks else None

    def forward(self, x: Tensor, cu_seqlens: Tensor | None = None) -> Tensor:
        """Attend within each row of x [B, S, N], or within documents of the B * S tokens by cu_seqlens."""
        tokens = x.shape[:-1] if cu_seqlens is None else (x.shape[:-1].numel(),)
        query, key, value = (
            projection(x).view(*tokens, -1, self.head_size)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        attended = flash_attention(
            query,
            key,
            value,
            cu_seqlens=cu_seqlens,
            causal=self.causal,
            dropout=self.dropout if self.training else 0.0,
            alibi_slopes=alibi_slopes(query.shape[-2]).to(query.device) if self.alibi else None,
            sinks=None if self.sinks is None else self.sinks.to(_arithmetic_dtype(query)),
            window_size=self.window_size,
            softcap=self.softcap,
        )
        return self.o_proj(attended.reshape(x.shape))

    def extra_repr(self) -> str:
        """What print(module) adds: the settings that the projections do not show."""
        return (
            f"head_size={self.head_size}, dropout={self.dropout}, causal={self.causal}, "
            f"window_size={self.window_size}, softcap={self.softcap}, "
            f"alibi={self.alibi}, sinks={self.sinks is not None}"
        )
