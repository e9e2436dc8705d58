"""Lion with the fused update."""

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


class Lion(FusedOptimizer):
    """Lion (Chen et al. 2023, arXiv 2302.06675): the sign of a mean of gradients, one moment.

    The paper advises a learning rate 3 to 10 times smaller than AdamW's and a weight decay larger by the same factor.

    Args:
        params: parameters, or groups of them as for any torch optimizer.
        lr: size of every weight's step.
        betas: of the mean that gives the sign, and of the mean that is kept.
        weight_decay: decoupled; ``lr * weight_decay`` of a weight goes each step.

    Raises:
        ValueError: a setting out of its range.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    def check_group(self, group: Group) -> None:
        """See ``FusedOptimizer``."""
        super().check_group(group)
        check_betas("Lion", group["betas"])

    def new_state(self, group: Group, parameter: Tensor) -> State:
        """See ``FusedOptimizer``."""
        return {"exp_avg": moment_like(parameter)}

    def update(self, group: Group, parameters: list[Tensor], step: int) -> None:
        """See ``FusedOptimizer``."""
        beta1, beta2 = group["betas"]
        torch.ops.mindspeed.lion_(
            parameters,
            gradients(parameters),
            self.states(parameters, "exp_avg"),
            self.masters(parameters),
            lr=float(group["lr"]),
            beta1=beta1,
            beta2=beta2,
            weight_decay=group["weight_decay"],
            grad_scale=1.0,
        )
