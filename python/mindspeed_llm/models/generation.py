"""Token by token generation over the engine's key/value cache."""

from typing import Any

import torch

from mindspeed_core import _C


def generate_tokens(
    engine: Any,
    input_ids: torch.Tensor,
    max_new_tokens: int,
    temperature: float,
    top_k: int,
    top_p: float,
    do_sample: bool,
    eos_token_id: int | None,
) -> torch.Tensor:
    """Continue ``input_ids`` [B, S] by up to ``max_new_tokens``; see ``CausalLM.generate``."""
    if do_sample and temperature <= 0:
        raise ValueError(f"temperature must be positive when sampling, got {temperature}")
    cache = _C.KeyValueCache(engine)
    tokens = input_ids
    finished = torch.zeros(input_ids.size(0), dtype=torch.bool, device=input_ids.device)
    step_input, past = input_ids, 0
    for _ in range(max_new_tokens):
        length = step_input.size(1)
        positions = torch.arange(past, past + length, dtype=torch.int32, device=input_ids.device)
        hidden = engine.hidden(step_input, positions.repeat(step_input.size(0)), cache=cache)
        last = hidden.view(step_input.size(0), length, -1)[:, -1]
        past += length
        logits = engine.logits_of_hidden(last).float()
        step_input = _choose(logits, temperature, top_k, top_p, do_sample)
        if eos_token_id is not None:
            step_input[finished] = eos_token_id
            finished |= step_input[:, 0] == eos_token_id
        tokens = torch.cat([tokens, step_input], dim=1)
        if finished.all():
            break
    return tokens


def _choose(
    logits: torch.Tensor, temperature: float, top_k: int, top_p: float, do_sample: bool
) -> torch.Tensor:
    """The next token of each row, [B, 1]."""
    if not do_sample:
        return logits.argmax(dim=-1, keepdim=True)
    logits = logits / temperature
    if top_k > 0:
        smallest = logits.topk(min(top_k, logits.size(-1))).values[:, -1:]
        logits = logits.masked_fill(logits < smallest, float("-inf"))
    if top_p < 1.0:
        ordered, order = logits.sort(descending=True)
        probabilities = ordered.softmax(dim=-1)
        beyond = probabilities.cumsum(dim=-1) - probabilities >= top_p  # keeps the one that crosses
        logits = logits.masked_fill(beyond.scatter(1, order, beyond), float("-inf"))
    return torch.multinomial(logits.softmax(dim=-1), num_samples=1)
