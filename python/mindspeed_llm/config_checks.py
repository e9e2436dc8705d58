"""What several keys must hold together, each with the cure."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mindspeed_llm.config import TrainingArguments

MICRO_BATCH_TOKENS = 8192
# optimizers that need whole parameters, and what they would do to a shard
WHOLE_PARAMETERS = {
    "adamw_8bit": "its blocks of 256 elements would be cut differently on every number of processes",
    "muon": "it cannot orthogonalise a matrix of which it sees only some rows",
}


class Problem(NamedTuple):
    """A broken rule: the key to blame and the sentence."""

    key: str
    text: str


def first_problem(args: "TrainingArguments") -> Problem | None:
    """The first rule that the configuration breaks, whatever the number of processes."""
    return next(_problems(args), None)


def _problems(args: "TrainingArguments") -> Iterator[Problem]:
    model, training, parallel = args.model, args.training, args.parallel
    hidden, heads, kv_heads = (
        model.hidden_size,
        model.num_attention_heads,
        model.num_key_value_heads,
    )
    if hidden % heads != 0:
        yield Problem(
            "model.num_attention_heads",
            f"model.num_attention_heads ({heads}) must divide model.hidden_size ({hidden});"
            f" use {_nearest_divisor(hidden, heads)}",
        )
    if heads % kv_heads != 0:
        yield Problem(
            "model.num_key_value_heads",
            f"model.num_key_value_heads ({kv_heads}) must divide model.num_attention_heads"
            f" ({heads}); use {_nearest_divisor(heads, kv_heads)}",
        )
    if model.head_size % 2 != 0:
        yield Problem(
            "model.head_size",
            f"model.head_size must be even (rotary pairs), got {model.head_size};"
            " use fewer heads, or set model.head_size",
        )
    if training.seq_len > model.max_position_embeddings:
        yield Problem(
            "training.seq_len",
            f"training.seq_len ({training.seq_len}) must be at most model.max_position_embeddings"
            f" ({model.max_position_embeddings}); lower it, or raise the other",
        )
    for key in ("num_key_value_heads", "num_attention_heads", "intermediate_size", "vocab_size"):
        value = getattr(model, key)
        if value % parallel.tensor_parallel != 0:
            yield Problem(
                "parallel.tensor_parallel",
                f"parallel.tensor_parallel ({parallel.tensor_parallel}) must divide model.{key}"
                f" ({value}); use {_nearest_divisor(value, parallel.tensor_parallel)}",
            )
    if parallel.pipeline_parallel > model.num_layers:
        yield Problem(
            "parallel.pipeline_parallel",
            f"parallel.pipeline_parallel ({parallel.pipeline_parallel}) must be at most"
            f" model.num_layers ({model.num_layers}); use {model.num_layers}",
        )
    memory = args.memory
    if memory.budget_gb is not None and (memory.recompute != "none" or memory.recompute_every > 1):
        yield Problem(
            "memory.budget_gb",
            "memory.budget_gb picks the recomputation by itself; leave memory.recompute and"
            " memory.recompute_every out, or memory.budget_gb",
        )
    if memory.budget_gb is not None and parallel.fsdp:
        yield Problem(
            "memory.budget_gb",
            "memory.budget_gb is not supported with parallel.fsdp; set memory.recompute instead",
        )
    if memory.recompute_every > 1 and memory.recompute == "none":
        yield Problem(
            "memory.recompute_every",
            f"memory.recompute_every ({memory.recompute_every}) needs memory.recompute: selective"
            " or full",
        )
    if memory.swap_folder is not None and memory.swap == "none":
        yield Problem(
            "memory.swap_folder",
            "memory.swap_folder needs memory.swap: activations, optimizer or all; set it, or leave"
            " the folder out",
        )
    if memory.swaps_activations and memory.budget_gb is not None:
        yield Problem(
            "memory.swap",
            f"memory.swap ({memory.swap}) must not be set together with memory.budget_gb, which"
            " plans for activations that stay in memory; set memory.recompute instead",
        )
    if memory.swaps_optimizer and training.optimizer != "adamw":
        yield Problem(
            "memory.swap",
            f"memory.swap ({memory.swap}) moves the moments of training.optimizer: adamw only, got"
            f" {training.optimizer}; set memory.swap: activations",
        )
    micro = training.micro_batch_size
    if micro is not None and training.batch_size % micro != 0:
        yield Problem(
            "training.micro_batch_size",
            f"training.micro_batch_size ({micro}) must divide training.batch_size"
            f" ({training.batch_size}); use {_nearest_divisor(training.batch_size, micro)}",
        )
    if parallel.fsdp and training.optimizer in WHOLE_PARAMETERS:
        yield Problem(
            "training.optimizer",
            f"training.optimizer ({training.optimizer}) must be adamw or lion under parallel.fsdp:"
            f" {WHOLE_PARAMETERS[training.optimizer]}; set parallel.fsdp: false",
        )
    if training.warmup_steps is not None and training.warmup_steps > training.max_steps:
        yield Problem(
            "training.warmup_steps",
            f"training.warmup_steps ({training.warmup_steps}) must be at most training.max_steps"
            f" ({training.max_steps}); lower it",
        )
    if training.min_lr is not None and training.min_lr > training.lr:
        yield Problem(
            "training.min_lr",
            f"training.min_lr ({training.min_lr:g}) must be at most training.lr"
            f" ({training.lr:g}); lower it",
        )


def refused_layout(args: "TrainingArguments") -> Problem | None:
    """A layout that models are built for but that the trainer does not train."""
    for key in ("tensor_parallel", "pipeline_parallel"):
        value = getattr(args.parallel, key)
        if value > 1:
            return Problem(
                f"parallel.{key}",
                f"parallel.{key} must be 1 for training, got {value}; set parallel.{key}: 1 and"
                " shard with parallel.fsdp: true instead",
            )
    return None


def micro_batch_size(args: "TrainingArguments", world_size: int) -> int | Problem:
    """Samples of one forward pass when ``world_size`` processes share the global batch."""
    batch, seq_len = args.training.batch_size, args.training.seq_len
    if batch % world_size != 0:
        return Problem(
            "training.batch_size",
            f"training.batch_size ({batch}) must be a multiple of the number of data parallel"
            f" processes ({world_size}); use {-(-batch // world_size) * world_size}",
        )
    share = batch // world_size
    micro = args.training.micro_batch_size
    if micro is None:
        most = max(1, MICRO_BATCH_TOKENS // seq_len)
        return max(size for size in range(1, share + 1) if share % size == 0 and size <= most)
    if share % micro != 0:
        fits = -(-batch // (micro * world_size)) * micro * world_size
        return Problem(
            "training.batch_size",
            f"training.batch_size ({batch}) must be a multiple of training.micro_batch_size x"
            f" processes ({micro} x {world_size}); use {fits}",
        )
    return micro


def _nearest_divisor(number: int, wanted: int) -> int:
    divisors = (d for d in range(1, number + 1) if number % d == 0)
    return min(divisors, key=lambda divisor: (abs(divisor - wanted), -divisor))
