"""LLaMA as one writes it in plain PyTorch: the peers "native", "sdpa" and "compile".

Same shapes, same Hugging Face parameter names and the same arithmetic as our model, no fused operator.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class RmsNorm(nn.Module):
    """x / rms(x) * weight."""

    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise the last dim of ``x``."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of ``x`` [B, H, S, D] in the half layout; ``cos``/``sin`` [S, D]."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    """Causal self-attention; the explicit form builds the S x S matrix, ``sdpa`` calls PyTorch's operator."""

    def __init__(self, hidden: int, heads: int, key_value_heads: int, sdpa: bool):
        super().__init__()
        self.head_size = hidden // heads
        self.groups = heads // key_value_heads
        self.sdpa = sdpa
        self.q_proj = nn.Linear(hidden, hidden, bias=False)
        self.k_proj = nn.Linear(hidden, key_value_heads * self.head_size, bias=False)
        self.v_proj = nn.Linear(hidden, key_value_heads * self.head_size, bias=False)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """``x`` [B, S, hidden] -> [B, S, hidden]."""
        batch, length, hidden = x.shape

        def heads(y: torch.Tensor) -> torch.Tensor:
            return y.view(batch, length, -1, self.head_size).transpose(1, 2)

        query = rotate(heads(self.q_proj(x)), cos, sin)
        key = rotate(heads(self.k_proj(x)), cos, sin)
        value = heads(self.v_proj(x))
        if self.groups > 1:
            key = key.repeat_interleave(self.groups, dim=1)
            value = value.repeat_interleave(self.groups, dim=1)
        if self.sdpa:
            attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = query @ key.transpose(-2, -1) / self.head_size**0.5
            future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            attended = scores.masked_fill(future, float("-inf")).softmax(-1) @ value
        return self.o_proj(attended.transpose(1, 2).reshape(batch, length, hidden))


class Mlp(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, hidden: int, intermediate: int):
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` [B, S, hidden] -> [B, S, hidden]."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Pre-norm decoder layer."""

    def __init__(self, shape: dict[str, int], sdpa: bool):
        super().__init__()
        hidden = shape["hidden_size"]
        self.self_attn = Attention(
            hidden, shape["num_attention_heads"], shape["num_key_value_heads"], sdpa
        )
        self.mlp = Mlp(hidden, shape["intermediate_size"])
        self.input_layernorm = RmsNorm(hidden, 1e-5)
        self.post_attention_layernorm = RmsNorm(hidden, 1e-5)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """``x`` [B, S, hidden] -> [B, S, hidden]."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Embedding, layers and final norm."""

    def __init__(self, shape: dict[str, int], sdpa: bool):
        super().__init__()
        self.embed_tokens = nn.Embedding(shape["vocab_size"], shape["hidden_size"])
        self.layers = nn.ModuleList(Layer(shape, sdpa) for _ in range(shape["num_layers"]))
        self.norm = RmsNorm(shape["hidden_size"], 1e-5)
        size = shape["hidden_size"] // shape["num_attention_heads"]
        self.frequencies = 10000.0 ** (-torch.arange(0, size, 2) / size)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """``input_ids`` int64 [B, S] -> hidden states [B, S, hidden]."""
        positions = torch.arange(input_ids.size(1), device=input_ids.device)
        angles = torch.outer(positions.float(), self.frequencies).repeat(1, 2)
        cos, sin = angles.cos(), angles.sin()
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


class NativeLlama(nn.Module):
    """The whole model; ``forward`` returns the mean loss over all next tokens."""

    def __init__(self, shape: dict[str, int], sdpa: bool):
        super().__init__()
        self.model = Decoder(shape, sdpa)
        self.lm_head = nn.Linear(shape["hidden_size"], shape["vocab_size"], bias=False)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """``input_ids`` and (already shifted) ``labels`` int64 [B, S] -> scalar loss."""
        logits = self.lm_head(self.model(input_ids))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
