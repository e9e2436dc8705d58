"""What a checkpoint of a run holds, and how a run continues from it.

Tensors: each parameter under its own name, ``optimizer.KEY.PARAMETER``, ``rng.cpu.RANK``. JSON: the step,
samples seen, engine, optimizer and scheduler values, the model's spec.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from mindspeed_core import _C
from mindspeed_llm.errors import ConfigError, TrainingError
from mindspeed_llm.loss_guard import LossGuard
from mindspeed_llm.optimizers import NamedTensors, Updater
from mindspeed_llm.world import World

FORMAT = 1
Shard = tuple[list[int], list[int]]  # global shape, where this piece starts


class RunCheckpoint:
    """Saves and restores everything that decides how a run goes on."""

    def __init__(
        self,
        output_dir: Path,
        world: World,
        engine: Any,
        model: Any,
        updater: Updater,
        guard: LossGuard,
        keep_last: int,
        asynchronous: bool,
    ) -> None:
        self.root = output_dir / "checkpoints"
        self.world, self.engine, self.model = world, engine, model
        self.updater, self.guard = updater, guard
        self.asynchronous = asynchronous
        self._shapes = {o["name"]: list(o["global_shape"]) for o in model.engine.parameter_owners()}
        self._writer = _C.CheckpointWriter(str(self.root), keep_last, world.rank, world.size)

    def folder(self, step: int) -> Path:
        """Where the checkpoint of a step lies."""
        return self.root / f"step_{step:08d}"

    def save(self, step: int, samples: int) -> None:
        """Write the checkpoint of ``step``; returns early when asynchronous.

        Raises:
            TrainingError: this one or the one before it could not be written.
        """
        tensors, shards, unsplit = self._tensors()
        state = {
            "format": FORMAT,
            "step": step,
            "samples": samples,
            "world_size": self.world.size,
            "engine": json.loads(self.engine.state_json()),
            "optimizer": self.updater.values(),
            "loss_guard": self.guard.state(),
            "spec": self.model.spec,
            "unsplit": unsplit,
        }
        self._writing(
            lambda: self._writer.save(step, tensors, shards, json.dumps(state), self.asynchronous)
        )

    def wait(self) -> None:
        """Wait for the write that is under way.

        Raises:
            TrainingError: it failed.
        """
        self._writing(self._writer.wait)

    def restore(self, folder: Path) -> tuple[int, int]:
        """Continue from ``folder``; the step and the number of samples that it had seen.

        Raises:
            TrainingError: it is damaged.
            ConfigError: it holds another model.
        """
        reader = open_checkpoint(folder, verify=False)  # whoever chose the folder has verified it
        state = json.loads(reader.state_json)
        refuse_other_model(folder, state["spec"], self.model.spec)
        names, unsplit = set(reader.names()), set(state["unsplit"])
        with torch.no_grad():
            for name, parameter in self.engine.parameters():
                parameter.copy_(self._read(reader, name, parameter, name))
        parameters = dict(self.engine.parameters())
        moments: NamedTensors = {}
        for name in names:
            if name.startswith("optimizer."):
                key = name.removeprefix("optimizer.")
                owner = key.partition(".")[2]
                if name in unsplit:
                    moments[key] = reader.read(name)
                else:
                    moments[key] = self._read(reader, name, parameters[owner], owner)
        self.updater.load(moments, state["optimizer"])
        self.engine.load_state_json(json.dumps(state["engine"]))
        self.guard.load(state["loss_guard"])
        if self._rng_name() in names:
            torch.set_rng_state(reader.read(self._rng_name()))
        return int(state["step"]), int(state["samples"])

    def _rng_name(self) -> str:
        return f"rng.cpu.{self.world.rank}"

    def _tensors(self) -> tuple[NamedTensors, dict[str, Shard], list[str]]:
        """The pieces that this rank writes, and which names are not shaped as their parameter.

        What is the same on every rank is written by the first.
        """
        parameters = dict(self.engine.parameters())
        every: NamedTensors = {name: tensor.detach() for name, tensor in parameters.items()}
        owners = {name: name for name in every}
        for key, tensor in self.updater.tensors().items():
            every[f"optimizer.{key}"] = tensor.detach()
            owners[f"optimizer.{key}"] = key.partition(".")[2]
        tensors: NamedTensors = {}
        shards: dict[str, Shard] = {}
        unsplit: list[str] = []
        for name, tensor in every.items():
            parameter = parameters[owners[name]]
            whole, start = self._piece(owners[name], parameter)
            if list(tensor.shape) != list(parameter.shape):  # a step count, a factored moment
                if not self._is_whole(owners[name], parameter) and tensor.dim() > 0:
                    raise TrainingError(
                        f"the optimizer's state {name} of shape {list(tensor.shape)} cannot be saved"
                        " under parallel.fsdp; use an elementwise optimizer such as AdamW"
                    )
                unsplit.append(name)
                whole, start = list(tensor.shape), [0] * tensor.dim()
            elif not self._is_whole(owners[name], parameter):
                if tensor.numel() > 0:
                    tensors[name], shards[name] = tensor, (whole, start)
                continue
            if self.world.is_first:
                tensors[name], shards[name] = tensor, (whole, start)
        rng = torch.get_rng_state()
        tensors[self._rng_name()], shards[self._rng_name()] = rng, (list(rng.shape), [0])
        return tensors, shards, unsplit

    def _is_whole(self, name: str, parameter: torch.Tensor) -> bool:
        return list(parameter.shape) == self._shapes[name]

    def _piece(self, name: str, parameter: torch.Tensor) -> Shard:
        """Global shape and start of this rank's piece, cut along dim 0 by torch.chunk's rule."""
        shape = self._shapes[name]
        start = [0] * len(shape)
        if not self._is_whole(name, parameter):
            start[0] = min(self.world.rank * -(-shape[0] // self.world.size), shape[0])
        return shape, start

    def _read(self, reader: Any, name: str, parameter: torch.Tensor, owner: str) -> torch.Tensor:
        """The tensor, or this rank's rows of it when the parameter is sharded."""
        if self._is_whole(owner, parameter):
            return reader.read(name)
        if parameter.numel() == 0:
            return torch.empty_like(parameter)
        _, start = self._piece(owner, parameter)
        return reader.read_slice(name, start[0], parameter.size(0))

    def _writing(self, action: Callable[[], None]) -> None:
        try:
            action()
        except RuntimeError as error:
            raise TrainingError(
                f"the checkpoint was not written: {str(error).splitlines()[0]}"
            ) from None


def open_checkpoint(folder: Path, verify: bool = True) -> Any:
    """A reader; ``verify`` compares every file with its checksum first.

    Raises:
        TrainingError: missing or damaged; says which file and what was expected.
    """
    try:
        return _C.CheckpointReader(str(folder), verify)
    except (RuntimeError, ValueError) as error:
        raise TrainingError(str(error).splitlines()[0]) from None


def newest_checkpoint(output_dir: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that verifies, and why newer ones were passed over."""
    root = output_dir / "checkpoints"
    if not root.is_dir():
        return None, []
    path, rejected = _C.find_checkpoint(str(root))
    return (Path(path) if path else None), list(rejected)


def refuse_other_model(folder: Path, saved: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raise ConfigError when a checkpoint's model is not the configured one, naming the difference."""
    before, now = _flat(saved), _flat(wanted)
    for key in sorted(before.keys() | now.keys()):
        if (
            key == "max_position_embeddings"
            and not now.get("rotary.scaling", "default") == "dynamic"
        ):
            continue  # a table's length, no weight
        if before.get(key) != now.get(key):
            raise ConfigError(
                f"{folder}: the checkpoint's model has {key} {before.get(key)}, the configuration"
                f" {now.get(key)}; set it back, or choose another training.output_dir"
            )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
