"""The effective plan that a run prints before its first step: under 25 lines of 80 columns."""

import textwrap
from dataclasses import dataclass
from typing import Any

import torch

from mindspeed_llm.config import TrainingArguments
from mindspeed_llm.peak_rate import PeakRate
from mindspeed_llm.precision import Precision
from mindspeed_llm.progress import gigabytes
from mindspeed_llm.world import World

WIDTH = 80
LABEL = 13
_SWAPPED = {
    "activations": "activations",
    "optimizer": "the optimizer's moments",
    "all": "activations and the optimizer's moments",
}


@dataclass(frozen=True)
class Plan:
    """Everything that the plan speaks of."""

    args: TrainingArguments
    spec: dict[str, Any]
    num_parameters: int
    world: World
    device: torch.device
    precision: Precision
    peak: PeakRate
    kernels: list[str]
    pool: str
    micro_batch: int
    expected_bytes: int
    data: str
    optimizer: str
    recompute: str
    start: str

    def lines(self) -> list[str]:
        """The plan as text, wrapped at 80 columns."""
        args, training, world = self.args, self.args.training, self.world
        attention, mlp = self.spec["attention"], self.spec["mlp"]
        accumulation = training.batch_size // world.size // self.micro_batch
        tokens = training.batch_size * training.seq_len
        scaling = self.spec["rotary"].get("scaling", "default")
        sharing = (
            "fsdp: weights, gradients, moments sharded"
            if args.parallel.fsdp
            else (f"replicated, buckets of {args.parallel.bucket_mib} MiB reduced during backward")
        )
        every = training.save_interval
        rows = [
            ("model", f"{args.model.type}, {self.num_parameters:,} parameters, vocabulary"
                f" {self.spec['vocab_size']}"),
            ("", f"{self.spec['num_layers']} layers, hidden {self.spec['hidden_size']},"
                f" heads {attention['num_heads']}/{attention['num_key_value_heads']} of"
                f" {attention['head_size']}, ffn {mlp['intermediate_size']}"),
            ("", f"rope theta {self.spec['rotary']['theta']:g}, scaling {scaling},"
                f" embeddings {'tied' if self.spec['tie_word_embeddings'] else 'not tied'}"),
            ("layout", f"{_count(world.size, 'process', 'processes')} on {self.device.type}"
                f" x {_count(torch.get_num_threads(), 'thread')}"
                + (f", data parallel; {sharing}" if world.size > 1 else "")),
            ("batch", f"{training.batch_size} samples x {training.seq_len} = {tokens:,} tokens; micro"
                f" batch {self.micro_batch}, accumulation {accumulation}"),
            ("precision", f"{self.precision.name} ({self.precision.reason})"),
            ("kernels", "; ".join(self.kernels)),
            ("pool", self.pool),
            ("peak", self.peak.source),
            ("recompute", self.recompute),
            *([("swap", f"{_SWAPPED[args.memory.swap]} in a file in {args.swap_folder}")]
                if args.memory.swap != "none" else []),
            ("memory", f"about {gigabytes(self.expected_bytes)} expected per process"),
            ("optimizer", self.optimizer),
            ("", f"weight decay {training.weight_decay:g}, clip {training.clip_norm:g}, z-loss"
                f" {training.z_loss:g}" if self.optimizer.startswith("fused") else
                f"clip {training.clip_norm:g}, z-loss {training.z_loss:g}"),
            ("data", self.data),
            ("checkpoints", f"{training.output_dir}/checkpoints, "
                + (f"every {every} steps" if every else "at the end") + f", last {training.keep_last}"
                + (", written meanwhile" if args.checkpoints_meanwhile else "")),
            ("start", f"{self.start}; {training.max_steps} steps; seed {training.seed}"),
        ]  # fmt: skip
        return [line for label, text in rows for line in _wrapped(label, text)]


def _wrapped(label: str, text: str) -> list[str]:
    width = WIDTH - LABEL
    parts = textwrap.wrap(text, width, break_on_hyphens=False) or [""]
    return [f"{label if n == 0 else '':<{LABEL}}{part}" for n, part in enumerate(parts)]


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
