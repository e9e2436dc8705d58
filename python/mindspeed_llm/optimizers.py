"""The ways of updating weights behind one interface: the engine's AdamW, an optimizer that the configuration names,
or a script's torch optimizer.

Tensor state goes into checkpoints under ``optimizer.KEY.PARAMETER``, everything else as JSON.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from mindspeed_core.optimizers import AdamW8bit, Lion, Muon
from mindspeed_llm.config_checks import WHOLE_PARAMETERS
from mindspeed_llm.errors import ConfigError, TrainingError
from mindspeed_llm.schedules import Schedule

if TYPE_CHECKING:
    from mindspeed_llm.config import TrainingConfig

NamedTensors = dict[str, torch.Tensor]


class Updater(Protocol):
    """Updates the weights from their gradients and knows its own state."""

    def step(self, step: int, loss: float, finite: bool) -> float:
        """Update unless the gradients are not finite; the learning rate that was used."""
        ...

    def tensors(self) -> NamedTensors:
        """State tensors as ``KEY.PARAMETER``."""
        ...

    def values(self) -> dict[str, Any]:
        """State that is not tensors, as JSON."""
        ...

    def load(self, tensors: NamedTensors, values: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        ...

    def describe(self) -> str:
        """A phrase for the plan."""
        ...


class FusedAdamW:
    """AdamW inside the engine, with a schedule."""

    def __init__(self, engine: Any, schedule: Schedule) -> None:
        self.engine, self.schedule = engine, schedule

    def step(self, step: int, loss: float, finite: bool) -> float:
        """See ``Updater``; the engine itself leaves out a step that was not finite."""
        rate = self.schedule(step)
        self.engine.optimizer_step(rate)
        return rate

    def tensors(self) -> NamedTensors:
        """exp_avg and exp_avg_sq."""
        return dict(self.engine.optimizer_state())

    def values(self) -> dict[str, Any]:
        """Nothing: the update count is part of the engine's own state."""
        return {"kind": "fused AdamW"}

    def load(self, tensors: NamedTensors, values: dict[str, Any]) -> None:
        """See ``Updater``."""
        _check_kind("fused AdamW", values)
        self.engine.load_optimizer_state(tensors)

    def describe(self) -> str:
        """A phrase for the plan."""
        return f"fused AdamW, lr {self.schedule.describe()}"


class TorchOptimizer:
    """Any ``torch.optim`` optimizer, with or without a scheduler.

    Args:
        optimizer: made from ``model.parameters()``.
        scheduler: stepped once after each update.
        parameters: the engine's leaf tensors by name. Where the engine shards, each full parameter in
            the optimizer is replaced by this rank's shard.
        model_parameters: the model's parameters by the same names.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        scheduler: LRScheduler | None,
        parameters: NamedTensors,
        model_parameters: NamedTensors,
    ) -> None:
        self.optimizer, self.scheduler = optimizer, scheduler
        self.kind = type(optimizer).__name__
        names = {id(tensor): name for name, tensor in model_parameters.items()}
        names |= {id(tensor): name for name, tensor in parameters.items()}
        self._names: list[str] = []
        for group in optimizer.param_groups:
            for index, tensor in enumerate(group["params"]):
                name = names.get(id(tensor))
                if name is None:
                    raise ConfigError(
                        f"optimizer: {self.kind} must update parameters of the model, got another"
                        f" tensor of shape {list(tensor.shape)}; make it from model.parameters()"
                    )
                if self.kind in NEED_WHOLE and parameters[name] is not model_parameters[name]:
                    raise ConfigError(
                        f"optimizer: {self.kind} must have whole parameters:"
                        f" {NEED_WHOLE[self.kind]}; set parallel.fsdp: false"
                    )
                self._names.append(name)
                group["params"][index] = parameters[name]

    def step(self, step: int, loss: float, finite: bool) -> float:
        """See ``Updater``."""
        rate = float(self.optimizer.param_groups[0]["lr"])
        if not finite:
            return rate
        self.optimizer.step()
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(loss)
        elif self.scheduler is not None:
            self.scheduler.step()
        return rate

    def tensors(self) -> NamedTensors:
        """See ``Updater``."""
        return {
            f"{key}.{self._names[index]}": value
            for index, state in self.optimizer.state_dict()["state"].items()
            for key, value in state.items()
            if isinstance(value, torch.Tensor)
        }

    def values(self) -> dict[str, Any]:
        """See ``Updater``."""
        state = self.optimizer.state_dict()
        plain = {
            self._names[index]: {
                key: value for key, value in entry.items() if not isinstance(value, torch.Tensor)
            }
            for index, entry in state["state"].items()
        }
        return {
            "kind": self.kind,
            "groups": [_plain(group) for group in state["param_groups"]],
            "state": {name: entry for name, entry in plain.items() if entry},
            "scheduler": _plain(self.scheduler.state_dict()) if self.scheduler else None,
        }

    def load(self, tensors: NamedTensors, values: dict[str, Any]) -> None:
        """See ``Updater``."""
        _check_kind(self.kind, values)
        index_of = {name: index for index, name in enumerate(self._names)}
        state: dict[int, dict[str, Any]] = {
            index_of[name]: dict(entry) for name, entry in values["state"].items()
        }
        for full_name, tensor in tensors.items():
            key, _, name = full_name.partition(".")
            state.setdefault(index_of[name], {})[key] = tensor
        groups = [
            {**now, **{key: _restored(now.get(key), value) for key, value in then.items()}}
            for now, then in zip(
                self.optimizer.state_dict()["param_groups"], values["groups"], strict=True
            )
        ]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        if self.scheduler is not None and values["scheduler"] is not None:
            self.scheduler.load_state_dict(values["scheduler"])

    def describe(self) -> str:
        """A phrase for the plan."""
        rate = f"{self.kind}, lr {self.optimizer.param_groups[0]['lr']:g}"
        return f"{rate}, {type(self.scheduler).__name__}" if self.scheduler else rate


class ScheduledOptimizer(TorchOptimizer):
    """An optimizer that the configuration names, with the configured schedule."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, schedule: Schedule, parameters: NamedTensors
    ) -> None:
        super().__init__(optimizer, None, parameters, parameters)
        self.schedule = schedule

    def step(self, step: int, loss: float, finite: bool) -> float:
        """See ``Updater``; the learning rate is a function of the step alone."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.schedule(step)
        return super().step(step, loss, finite)

    def describe(self) -> str:
        """A phrase for the plan."""
        return f"fused {self.kind}, lr {self.schedule.describe()}"


def parameter_groups(parameters: NamedTensors, weight_decay: float) -> list[dict[str, Any]]:
    """Groups for an optimizer of ours: hidden matrices, embedding and output layer, and norms and biases.

    All but the last decay. Only the first is Muon's.
    """
    groups: dict[str, dict[str, Any]] = {
        "hidden": {"weight_decay": weight_decay, "use_muon": True},
        "vocabulary": {"weight_decay": weight_decay, "use_muon": False},
        "vectors": {"weight_decay": 0.0, "use_muon": False},
    }
    for name, tensor in parameters.items():
        of_vocabulary = name.startswith(("model.embed_tokens.", "lm_head."))
        kind = "vectors" if tensor.dim() < 2 else "vocabulary" if of_vocabulary else "hidden"
        groups[kind].setdefault("params", []).append(tensor)
    return [group for group in groups.values() if "params" in group]


def make_optimizer(training: "TrainingConfig", parameters: NamedTensors) -> torch.optim.Optimizer:
    """The optimizer that ``training.optimizer`` names, over the engine's parameters."""
    groups = parameter_groups(parameters, training.weight_decay)
    return MAKERS[training.optimizer](training, groups)


def _adamw_settings(training: "TrainingConfig") -> dict[str, Any]:
    return {
        "lr": training.lr,
        "betas": (training.adam_beta1, training.adam_beta2),
        "eps": training.adam_eps,
    }


MAKERS: dict[str, Callable[["TrainingConfig", list[dict[str, Any]]], torch.optim.Optimizer]] = {
    "adamw_8bit": lambda training, groups: AdamW8bit(groups, **_adamw_settings(training)),
    "lion": lambda training, groups: Lion(groups, lr=training.lr),
    "muon": lambda training, groups: Muon(groups, **_adamw_settings(training)),
}
# by class name, so that torch.optim.Muon is meant too
NEED_WHOLE = {"AdamW8bit": WHOLE_PARAMETERS["adamw_8bit"], "Muon": WHOLE_PARAMETERS["muon"]}


def _check_kind(kind: str, values: dict[str, Any]) -> None:
    if values.get("kind") != kind:
        raise TrainingError(
            f"the checkpoint holds the state of {values.get('kind')}, the run uses {kind}; use the"
            " same optimizer, or start with training.resume: never"
        )


def _plain(state: dict[str, Any]) -> dict[str, Any]:
    """A state dictionary as JSON holds it: tensors as numbers, functions left out."""
    result: dict[str, Any] = {}
    for key, value in state.items():
        if isinstance(value, torch.Tensor):
            value = value.tolist()
        elif callable(value):
            continue
        try:
            json.dumps(value)
        except TypeError:
            raise TrainingError(
                f"the state {key!r} of the optimizer or scheduler cannot be saved: a"
                f" {type(value).__name__} is not a number, text, list or tensor"
            ) from None
        result[key] = value
    return result


def _restored(now: Any, then: Any) -> Any:
    if isinstance(now, tuple):
        return tuple(then)
    if isinstance(now, torch.Tensor):
        return torch.full_like(now, then)
    return then
