"""Memory that this process holds, and what a run is expected to need."""

import resource
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from mindspeed_core import _C
from mindspeed_llm.recompute import layer_choices

if TYPE_CHECKING:
    from mindspeed_llm.config import TrainingArguments

# of a parameter; muon's matrices have one moment, its embeddings two
MOMENT_BYTES = {"adamw": 8, "adamw_8bit": 2, "lion": 4, "muon": 6}


def peak_memory_bytes(device: torch.device) -> int:
    """Largest memory so far: of the device's allocator, or of the process on a CPU."""
    if device.type == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return int(torch.get_device_module(device).max_memory_allocated(device))


def pool_use() -> dict[str, int]:
    """The buffer pool in the step that ends now: most bytes in use at once, and bytes it holds."""
    statistics = _C.pool_statistics()
    _C.pool_reset_peak()
    return {
        "pool_peak_bytes": statistics["peak_in_use_bytes"],
        "pool_reserved_bytes": statistics["reserved_bytes"],
    }


def resident_bytes() -> int:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def expected_bytes(
    args: "TrainingArguments",
    spec: dict[str, Any],
    num_parameters: int,
    micro_batch: int,
    shards: int,
    bytes_per_value: int,
    process_bytes: int,
) -> int:
    """Estimate for one process: fp32 weights, gradients and the optimizer's moments, kept activations, the rest.

    Args:
        num_parameters: of the whole model.
        shards: processes that share weights, gradients and moments (1 without fsdp).
        bytes_per_value: of the compute type.
        process_bytes: what the process already holds without the model (libraries).
    """
    hidden, attention = spec["hidden_size"], spec["attention"]
    query = attention["num_heads"] * attention["head_size"]
    key_value = attention["num_key_value_heads"] * attention["head_size"]
    # A layer keeps two norms' inputs, q, k, v, the attention's output, gate and up; see models/recomputation.h.
    attention_part = 2 * hidden + 2 * query + 2 * key_value
    kept = {
        "none": attention_part + 2 * spec["mlp"]["intermediate_size"],
        "selective": attention_part + hidden,
        "full": hidden,
    }
    per_token = sum(kept[choice] for choice in layer_choices(args, spec["num_layers"]))
    activations = micro_batch * args.training.seq_len * per_token * bytes_per_value
    if args.memory.swaps_activations:  # two layers' at a time
        activations = activations * min(2, spec["num_layers"]) // spec["num_layers"]
    moments = 0 if args.memory.swaps_optimizer else MOMENT_BYTES[args.training.optimizer]
    per_parameter = 8 + moments
    return process_bytes + per_parameter * num_parameters // shards + activations
