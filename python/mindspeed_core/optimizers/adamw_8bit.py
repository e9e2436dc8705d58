"""AdamW with moments in 8 bits."""

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from mindspeed_core.optimizers.adamw import adamw_settings, adamw_state, adamw_update
from mindspeed_core.optimizers.fused_optimizer import (
    FusedOptimizer,
    Group,
    State,
    check_betas,
    gradients,
)

BLOCK = 256


class AdamW8bit(FusedOptimizer):
    """AdamW whose moments take 8 bits an element (Dettmers et al. 2022, arXiv 2110.02861): a quarter of the memory.

    Args:
        params, lr, betas, eps, weight_decay: as for ``AdamW``.
        min_8bit_size: smaller parameters (norms, biases) keep float32 moments, as in bitsandbytes.

    Raises:
        ValueError: a setting out of its range, or a float64 parameter.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        min_8bit_size: int = 4096,
    ) -> None:
        settings = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**settings, "min_8bit_size": min_8bit_size})

    def check_group(self, group: Group) -> None:
        """See ``FusedOptimizer``."""
        super().check_group(group)
        check_betas("AdamW8bit", group["betas"])
        for parameter in group["params"]:
            if parameter.dtype == torch.float64:
                raise ValueError(
                    "AdamW8bit: parameters must be float32, bfloat16 or float16, got torch.float64;"
                    " use AdamW"
                )

    def new_state(self, group: Group, parameter: Tensor) -> State:
        """See ``FusedOptimizer``; all-zero codes and scales stand for zeros."""
        if parameter.numel() < group["min_8bit_size"]:
            return adamw_state(parameter)
        state: State = {}
        blocks = -(-parameter.numel() // BLOCK)
        for name in ("exp_avg", "exp_avg_sq"):
            codes = torch.zeros(parameter.shape, dtype=torch.uint8, device=parameter.device)
            state[f"{name}_codes"] = codes
            state[f"{name}_scales"] = torch.zeros(blocks, device=parameter.device)
        return state

    def update(self, group: Group, parameters: list[Tensor], step: int) -> None:
        """See ``FusedOptimizer``."""
        large = [p for p in parameters if "exp_avg_codes" in self.state[p]]
        small = [p for p in parameters if "exp_avg" in self.state[p]]
        if small:
            adamw_update(self, group, small, step)
        if not large:
            return
        torch.ops.mindspeed.adamw_8bit_(
            large,
            gradients(large),
            self.states(large, "exp_avg_codes"),
            self.states(large, "exp_avg_scales"),
            self.states(large, "exp_avg_sq_codes"),
            self.states(large, "exp_avg_sq_scales"),
            self.masters(large),
            **adamw_settings(group, step),
        )
