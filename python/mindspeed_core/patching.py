"""``patch(model)``: a user's transformers model on our operators, in place.

Only the given model changes: its norms and gated MLPs get a forward of ours, its attention goes through
transformers' own registry of attention functions, its loss through ``model.loss_function``. Weights, outputs
and everything else of the script stay as they are.
"""

import types
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mindspeed_core import ops

ATTENTION = "mindspeed"  # our name in transformers' registries


class NormKind(NamedTuple):
    """Where a norm class keeps its epsilon, and what it adds to its weight."""

    eps: str
    offset: float


NORMS = {
    "LlamaRMSNorm": NormKind("variance_epsilon", 0.0),
    "MistralRMSNorm": NormKind("variance_epsilon", 0.0),
    "MixtralRMSNorm": NormKind("variance_epsilon", 0.0),
    "Phi3RMSNorm": NormKind("variance_epsilon", 0.0),
    "Qwen2RMSNorm": NormKind("variance_epsilon", 0.0),
    "Qwen3RMSNorm": NormKind("variance_epsilon", 0.0),
    "GemmaRMSNorm": NormKind("eps", 1.0),
    "Gemma2RMSNorm": NormKind("eps", 1.0),
    "Gemma3RMSNorm": NormKind("eps", 1.0),
}
MLPS = {"LlamaMLP", "MistralMLP", "Qwen2MLP", "Qwen3MLP", "GemmaMLP", "Gemma2MLP", "Gemma3MLP"}
GATES = {  # by the class of act_fn
    "SiLUActivation": ops.swiglu,
    "SiLU": ops.swiglu,
    "GELUTanh": ops.geglu,
    "PytorchGELUTanh": ops.geglu,
}


class Patched(NamedTuple):
    """How many modules of each kind now run on our operators."""

    norms: int
    mlps: int
    attention: bool
    loss: bool


def patch(model: nn.Module) -> Patched:
    """Make a transformers causal language model run on our operators, in place; returns what was changed.

    Norms, gated MLPs (SwiGLU, GeGLU), attention (causal, grouped-query, sliding window, soft-cap; a padded or otherwise
    special mask goes to torch's own attention) and the cross-entropy. LLaMA, Qwen, Mistral and Gemma families.

    Raises:
        ValueError: not a transformers model, or one of which nothing is known.
    """
    from transformers import PreTrainedModel

    if not isinstance(model, PreTrainedModel):
        raise ValueError(f"patch: takes a transformers model, got {type(model).__name__}")
    norms = [module for module in model.modules() if type(module).__name__ in NORMS]
    mlps = [
        module
        for module in model.modules()
        if type(module).__name__ in MLPS and type(module.act_fn).__name__ in GATES
    ]
    if not norms and not mlps:
        raise ValueError(
            f"patch: nothing in {type(model).__name__} is known to it; it knows"
            f" {', '.join(sorted(NORMS))}"
        )
    for norm in norms:
        norm.forward = types.MethodType(_norm_forward(NORMS[type(norm).__name__]), norm)
    for mlp in mlps:
        mlp.forward = types.MethodType(_mlp_forward(GATES[type(mlp.act_fn).__name__]), mlp)
    _register()
    model.set_attn_implementation(ATTENTION)
    has_loss = hasattr(model, "lm_head")
    if has_loss:
        model.loss_function = causal_loss
    return Patched(len(norms), len(mlps), True, has_loss)


def _norm_forward(kind: NormKind) -> Callable[[Any, Tensor], Tensor]:
    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        weight = self.weight.float() + kind.offset if kind.offset else self.weight
        return ops.rms_norm(hidden_states, weight, getattr(self, kind.eps))

    return forward


def _mlp_forward(gated: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Tensor], Tensor]:
    def forward(self: Any, x: Tensor) -> Tensor:
        return self.down_proj(gated(self.gate_proj(x), self.up_proj(x)))

    return forward


def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(ATTENTION, attention)
    AttentionMaskInterface.register(ATTENTION, attention_mask)


def attention_mask(**arguments: Any) -> Tensor | None:
    """transformers' mask function for our attention: None where causality and window say all, else a boolean mask."""
    from transformers.masking_utils import sdpa_mask

    padding = arguments.get("attention_mask")
    unpadded = padding is None or bool(padding.all())
    whole = arguments.get("q_length") == arguments["kv_length"]
    if unpadded and whole and arguments.get("allow_is_causal_skip", True):
        return None
    return sdpa_mask(**arguments)


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' attention function on flash_attention: query [B, H, S, D] -> [B, S, H, D].

    Raises:
        ValueError: a mask together with a soft-cap, which torch's attention does not have.
    """
    is_causal = kwargs.get("is_causal")
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    if attention_mask is not None or query.shape[2] != key.shape[2]:
        if softcap:
            raise ValueError(
                "patch: a padded batch or a cache with a soft-cap is not supported; use"
                " set_attn_implementation('eager') for it"
            )
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, **kwargs
        )
    window = (sliding_window - 1, -1) if sliding_window else (-1, -1)
    out = ops.flash_attention.flash_attention(
        query.transpose(1, 2),
        key.transpose(1, 2),
        value.transpose(1, 2),
        causal=causal,
        scale=scaling,
        dropout=dropout,
        window_size=window,
        softcap=softcap or 0.0,
    )
    return out, None


def causal_loss(
    logits: Tensor,
    labels: Tensor | None,
    vocab_size: int,
    num_items_in_batch: Tensor | int | None = None,
    ignore_index: int = -100,
    shift_labels: Tensor | None = None,
    **_kwargs: Any,
) -> Tensor:
    """transformers' ForCausalLMLoss: the mean over valid tokens, or the sum over ``num_items_in_batch``."""
    if shift_labels is None:
        assert labels is not None
        shift_labels = nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    flat = shift_labels.reshape(-1).to(logits.device)
    losses = ops.cross_entropy(logits.view(-1, vocab_size), flat, ignore_index)
    items = (flat != ignore_index).sum() if num_items_in_batch is None else num_items_in_batch
    return losses.sum() / torch.as_tensor(items, device=losses.device)
