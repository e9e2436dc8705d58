"""AdamW with the fused update."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from mindspeed_core.optimizers.fused_optimizer import (
    FusedOptimizer,
    Group,
    State,
    check_betas,
    gradients,
    moment_like,
)


class AdamW(FusedOptimizer):
    """AdamW with decoupled decay (Loshchilov and Hutter 2019, arXiv 1711.05101).

    Args:
        params: parameters, or groups of them as for any torch optimizer.
        lr: learning rate.
        betas: decays of the mean and of the mean square.
        eps: added to the root of the mean square.
        weight_decay: decoupled; ``lr * weight_decay`` of a weight goes each step.

    Raises:
        ValueError: a setting out of its range.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    def check_group(self, group: Group) -> None:
        """See ``FusedOptimizer``."""
        super().check_group(group)
        check_betas(type(self).__name__, group["betas"])

    def new_state(self, group: Group, parameter: Tensor) -> State:
        """See ``FusedOptimizer``."""
        return adamw_state(parameter)

    def update(self, group: Group, parameters: list[Tensor], step: int) -> None:
        """See ``FusedOptimizer``."""
        adamw_update(self, group, parameters, step)


def adamw_state(parameter: Tensor) -> State:
    """Both moments of a parameter before its first step."""
    return {"exp_avg": moment_like(parameter), "exp_avg_sq": moment_like(parameter)}


def adamw_update(
    optimizer: FusedOptimizer, group: Group, parameters: list[Tensor], step: int
) -> None:
    """AdamW's step of an optimizer's parameters that have ``adamw_state``."""
    torch.ops.mindspeed.adamw_(
        parameters,
        gradients(parameters),
        optimizer.states(parameters, "exp_avg"),
        optimizer.states(parameters, "exp_avg_sq"),
        optimizer.masters(parameters),
        **adamw_settings(group, step),
    )


def adamw_settings(group: Group, step: int) -> dict[str, Any]:
    """A group's settings as the operators adamw_ and adamw_8bit_ take them."""
    beta1, beta2 = group["betas"]
    return {
        "lr": float(group["lr"]),
        "beta1": beta1,
        "beta2": beta2,
        "eps": group["eps"],
        "weight_decay": group["weight_decay"],
        "step": step,
        "grad_scale": 1.0,
    }
