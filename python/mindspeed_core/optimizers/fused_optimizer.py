"""What our optimizers share: one operator call for many parameters, master weights, state that keeps its dtypes."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor

import mindspeed_core  # noqa: F401  (loads libmindspeed, which registers the operators)

REDUCED = (torch.bfloat16, torch.float16)
Group = dict[str, Any]
State = dict[str, Any]


class FusedOptimizer(torch.optim.Optimizer):
    """Base class. A subclass says what a parameter's state is and how parameters are updated.

    The state of a parameter is tensors, ``step`` (an int, the updates so far) and, for bfloat16 and float16
    parameters, ``master``: the float32 weight that is updated and of which the parameter is the rounded copy.
    """

    def new_state(self, group: Group, parameter: Tensor) -> State:
        """The state tensors of a parameter before its first step."""
        raise NotImplementedError

    def update(self, group: Group, parameters: list[Tensor], step: int) -> None:
        """Step number ``step`` of parameters of one dtype that have gradients."""
        raise NotImplementedError

    def check_group(self, group: Group) -> None:
        """Raise ValueError for a group's setting out of its range."""
        check_number(type(self).__name__, "lr", float(group["lr"]), least=0.0)
        check_number(type(self).__name__, "weight_decay", group["weight_decay"], least=0.0)

    def add_param_group(self, param_group: Group) -> None:
        """Add a group, with its settings checked.

        Raises:
            ValueError: a setting is out of its range, or a parameter is not floating point.
        """
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        self.check_group(group)
        for parameter in group["params"]:
            if not parameter.is_floating_point():
                raise ValueError(
                    f"{type(self).__name__}: parameters must be floating point, got"
                    f" {parameter.dtype}; leave it out"
                )

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter that has a gradient; the closure, if any, computes the loss again.

        Raises:
            RuntimeError: a gradient is sparse.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            together: dict[tuple[torch.device, torch.dtype, int], list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if parameter.grad.is_sparse:
                    raise RuntimeError(
                        f"{type(self).__name__}: gradients must be dense, got a sparse one of shape"
                        f" {list(parameter.shape)}; use sparse=False in its embedding"
                    )
                state = self.state[parameter]
                if not state:
                    state.update(self._first_state(group, parameter))
                state["step"] += 1
                together[parameter.device, parameter.dtype, state["step"]].append(parameter)
            for (_, _, number), parameters in together.items():
                self.update(group, parameters, number)
        return loss

    def _first_state(self, group: Group, parameter: Tensor) -> State:
        state: State = {"step": 0, **self.new_state(group, parameter)}
        if parameter.dtype in REDUCED:
            state["master"] = parameter.detach().float()
        return state

    def states(self, parameters: Iterable[Tensor], name: str) -> list[Tensor]:
        """One state tensor of each parameter."""
        return [self.state[parameter][name] for parameter in parameters]

    def masters(self, parameters: list[Tensor]) -> list[Tensor]:
        """The master weights that the operators ask for: none for float32 and float64."""
        return self.states(parameters, "master") if parameters[0].dtype in REDUCED else []

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state. Unlike torch, which casts state to the parameters' dtype, dtypes stay as saved."""
        super().load_state_dict(state_dict)
        saved = [index for group in state_dict["param_groups"] for index in group["params"]]
        owned = [parameter for group in self.param_groups for parameter in group["params"]]
        for index, parameter in zip(saved, owned, strict=True):
            for name, value in state_dict["state"].get(index, {}).items():
                if isinstance(value, Tensor):
                    copy = value.detach().to(parameter.device, copy=True)
                    self.state[parameter][name] = copy


def gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    """The gradients of parameters that have one, in their parameter's dtype."""
    return [p.grad for p in parameters if p.grad is not None]


def moment_like(parameter: Tensor) -> Tensor:
    """Zeros for a moment: float32, or float64 for a float64 parameter."""
    wide = torch.float64 if parameter.dtype == torch.float64 else torch.float32
    return torch.zeros_like(parameter, dtype=wide, memory_format=torch.contiguous_format)


def check_betas(optimizer: str, betas: tuple[float, float]) -> None:
    """Raise ValueError unless both decays lie in [0, 1)."""
    for index, beta in enumerate(betas):
        check_number(optimizer, f"betas[{index}]", beta, least=0.0, below=1.0)


def check_number(
    optimizer: str, name: str, value: float, least: float, below: float = float("inf")
) -> None:
    """Raise ValueError unless ``least <= value < below``."""
    if not least <= value < below:
        rule = f"at least {least:g}" if below == float("inf") else f"in [{least:g}, {below:g})"
        raise ValueError(f"{optimizer}: {name} must be {rule}, got {value}")
