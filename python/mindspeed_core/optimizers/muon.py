"""Muon for the hidden matrices, AdamW for everything else, in one optimizer."""

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from mindspeed_core.optimizers.adamw import adamw_state, adamw_update
from mindspeed_core.optimizers.fused_optimizer import (
    FusedOptimizer,
    Group,
    State,
    check_betas,
    check_number,
    gradients,
    moment_like,
)


class Muon(FusedOptimizer):
    """Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon): orthogonalised momentum.

    A group with ``use_muon`` true (the default) updates its matrices by Muon and parameters of other ranks by AdamW;
    with false, all of it by AdamW, which is what embeddings and the output layer should have.

    Args:
        params: parameters, or groups of them as for any torch optimizer.
        lr: learning rate of both; with ``match_adamw_rms`` AdamW's usual one.
        momentum: decay of the momentum.
        nesterov: Nesterov's form of it.
        newton_schulz_steps: of the orthogonalisation.
        match_adamw_rms: multiply lr by 0.2 sqrt(max(M, N)) for an [M, N] matrix, so that updates are as large as
            AdamW's (Liu et al. 2025, arXiv 2502.16982); false: by sqrt(max(1, M / N)), as Jordan has it.
        betas, eps: of AdamW.
        weight_decay: decoupled, of both.

    Raises:
        ValueError: a setting out of its range.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        momentum: float = 0.95,
        nesterov: bool = True,
        newton_schulz_steps: int = 5,
        match_adamw_rms: bool = True,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.1,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "nesterov": nesterov,
                "newton_schulz_steps": newton_schulz_steps,
                "match_adamw_rms": match_adamw_rms,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "use_muon": True,
            },
        )

    def check_group(self, group: Group) -> None:
        """See ``FusedOptimizer``."""
        super().check_group(group)
        check_betas("Muon", group["betas"])
        check_number("Muon", "momentum", group["momentum"], least=0.0, below=1.0)
        check_number("Muon", "newton_schulz_steps", group["newton_schulz_steps"], least=1)

    def new_state(self, group: Group, parameter: Tensor) -> State:
        """See ``FusedOptimizer``."""
        if _by_muon(group, parameter):
            return {"momentum": moment_like(parameter)}
        return adamw_state(parameter)

    def update(self, group: Group, parameters: list[Tensor], step: int) -> None:
        """See ``FusedOptimizer``."""
        matrices = [p for p in parameters if _by_muon(group, p)]
        others = [p for p in parameters if not _by_muon(group, p)]
        if others:
            adamw_update(self, group, others, step)
        if not matrices:
            return
        torch.ops.mindspeed.muon_(
            matrices,
            gradients(matrices),
            self.states(matrices, "momentum"),
            self.masters(matrices),
            lr=float(group["lr"]),
            momentum=group["momentum"],
            nesterov=group["nesterov"],
            weight_decay=group["weight_decay"],
            newton_schulz_steps=group["newton_schulz_steps"],
            match_adamw_rms=group["match_adamw_rms"],
            grad_scale=1.0,
        )


def _by_muon(group: Group, parameter: Tensor) -> bool:
    return bool(group["use_muon"]) and parameter.dim() == 2
