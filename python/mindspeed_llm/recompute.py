"""What each layer computes again in backward: as configured, or found under a memory budget."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from mindspeed_llm.config_checks import Problem
from mindspeed_llm.progress import gigabytes

if TYPE_CHECKING:
    from mindspeed_llm.config import TrainingArguments


def layer_choices(args: "TrainingArguments", num_layers: int) -> list[str]:
    """A kind of recomputation for each layer, by ``memory.recompute`` and ``memory.recompute_every``."""
    memory = args.memory
    return [
        memory.recompute if layer % memory.recompute_every == 0 else "none"
        for layer in range(num_layers)
    ]


def fit_to_budget(
    args: "TrainingArguments", engine: Any, micro: int, accumulation: int, later_bytes: int
) -> str:
    """Let the engine choose under ``memory.budget_gb`` by measured steps; a phrase for the plan.

    Trial steps run on made-up tokens of the run's micro batch and sequence length. ``later_bytes`` are those that
    the run will take beside them, for optimizer state that does not exist yet.

    Raises:
        ConfigError: even recomputing every layer takes more than the budget.
    """
    assert args.memory.budget_gb is not None
    budget = int(args.memory.budget_gb * 1e9)
    tokens = torch.arange(micro * args.training.seq_len).view(micro, -1) % args.model.vocab_size
    batches = [(tokens, tokens, None, None)] * min(accumulation, 2)
    plan = engine.plan_recomputation(batches, budget - later_bytes)
    peak = gigabytes(plan["peak_bytes"] + later_bytes)
    if not plan["fits"]:
        problem = Problem(
            "memory.budget_gb",
            f"memory.budget_gb ({args.memory.budget_gb:g}) is less than the step takes with every"
            f" layer recomputed, {peak}; raise it, or lower"
            " training.micro_batch_size or training.seq_len",
        )
        raise args.error(problem)
    layer = plan["layer"]
    slower = sum(layer[kind]["seconds"] - layer["none"]["seconds"] for kind in plan["by_layer"])
    return (
        f"{describe(plan['by_layer'])} for a budget of {gigabytes(budget)}:"
        f" measured {peak}, {slower:.2f} s a micro batch more"
    )


def describe(choices: list[str]) -> str:
    """``3 layers full, 5 none``."""
    counts = Counter(choices)
    parts = [f"{counts[kind]} {kind}" for kind in ("full", "selective", "none") if counts[kind]]
    return "layers: " + ", ".join(parts)
