"""Who runs in ``mindspeed bench train``: each makes a function that trains one step and returns the loss."""

import json
from collections.abc import Callable
from typing import Any

import torch

from mindspeed_llm.bench_train.native_llama import NativeLlama

LEARNING_RATE = 3e-4
WEIGHT_DECAY = 0.1
BETAS = (0.9, 0.95)
CLIP_NORM = 1.0

Shape = dict[str, int]
Step = Callable[[torch.Tensor, torch.Tensor], float]


def _torch_step(model: torch.nn.Module, loss_of: Callable[..., torch.Tensor]) -> Step:
    """The usual PyTorch step, with torch's own fused AdamW."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=BETAS, weight_decay=WEIGHT_DECAY, fused=True
    )

    def step(input_ids: torch.Tensor, labels: torch.Tensor) -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(input_ids, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        return loss.item()

    return step


def native(shape: Shape) -> Step:
    """Plain PyTorch, attention as a softmax over the S x S matrix."""
    model = NativeLlama(shape, sdpa=False)
    return _torch_step(model, model)


def sdpa(shape: Shape) -> Step:
    """Plain PyTorch with ``scaled_dot_product_attention``."""
    model = NativeLlama(shape, sdpa=True)
    return _torch_step(model, model)


def compiled(shape: Shape) -> Step:
    """The same, through ``torch.compile``."""
    model = NativeLlama(shape, sdpa=True)
    return _torch_step(model, torch.compile(model))


def transformers_llama(shape: Shape) -> Step:
    """Hugging Face's LlamaForCausalLM with its default (SDPA) attention."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=shape["vocab_size"],
        hidden_size=shape["hidden_size"],
        num_hidden_layers=shape["num_layers"],
        num_attention_heads=shape["num_attention_heads"],
        num_key_value_heads=shape["num_key_value_heads"],
        intermediate_size=shape["intermediate_size"],
        max_position_embeddings=65536,
        rms_norm_eps=1e-5,
        use_cache=False,
    )
    model = LlamaForCausalLM(config).float().train()
    # Hugging Face shifts labels itself; giving it the inputs asks for the same number of predictions less one.
    return _torch_step(model, lambda input_ids, labels: model(input_ids, labels=input_ids).loss)


def mindspeed(shape: Shape) -> Step:
    """This engine as the Trainer runs it: buffer pool on, fused AdamW."""
    from mindspeed_core import _C

    _C.pool_enable()
    spec: dict[str, Any] = {
        "vocab_size": shape["vocab_size"],
        "hidden_size": shape["hidden_size"],
        "num_layers": shape["num_layers"],
        "max_position_embeddings": 65536,
        "attention": {
            "num_heads": shape["num_attention_heads"],
            "num_key_value_heads": shape["num_key_value_heads"],
            "head_size": shape["hidden_size"] // shape["num_attention_heads"],
        },
        "mlp": {"intermediate_size": shape["intermediate_size"]},
        "norm": {"eps": 1e-5},
    }
    model = _C.CausalLM(json.dumps(spec))
    settings = {
        "precision": "fp32",
        "clip_norm": CLIP_NORM,
        "optimizer": {"betas": list(BETAS), "weight_decay": WEIGHT_DECAY},
    }
    engine = _C.StepEngine(model, json.dumps(settings))

    def step(input_ids: torch.Tensor, labels: torch.Tensor) -> float:
        stats = engine.forward_backward([(input_ids, labels, None, None)])
        engine.optimizer_step(LEARNING_RATE)
        return stats.loss

    return step


CONTESTANTS: dict[str, Callable[[Shape], Step]] = {
    "mindspeed": mindspeed,
    "native": native,
    "sdpa": sdpa,
    "compile": compiled,
    "transformers": transformers_llama,
}
