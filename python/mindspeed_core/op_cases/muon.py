"""The Muon step over lists of matrices."""

from typing import Any

import torch
from torch import Tensor

from mindspeed_core.op_cases import OperatorCases, adamw
from mindspeed_core.op_cases.adamw import Tensors, on_copies

SETTINGS: dict[str, Any] = {
    "lr": 3e-3,
    "momentum": 0.95,
    "nesterov": True,
    "weight_decay": 0.1,
    "newton_schulz_steps": 5,
    "match_adamw_rms": True,
    "grad_scale": 0.7,
}


def fused_in_place(*lists: Tensors) -> None:
    """The operator."""
    torch.ops.mindspeed.muon_(*lists, **SETTINGS)


def orthogonalised(matrix: Tensor) -> Tensor:
    """Five Newton-Schulz steps."""
    tall = matrix.size(0) > matrix.size(1)
    x = matrix.t() if tall else matrix
    x = x / x.norm().clamp_min(1e-7)
    for _ in range(SETTINGS["newton_schulz_steps"]):
        gram = x @ x.t()
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.t() if tall else x


def naive_in_place(params: Tensors, grads: Tensors, momentums: Tensors, masters: Tensors) -> None:
    """The formula a matrix at a time."""
    lr, decay = SETTINGS["lr"], SETTINGS["momentum"]
    for i, (param, momentum) in enumerate(zip(params, momentums, strict=True)):
        weight = masters[i] if masters else param
        grad = grads[i].to(momentum.dtype) * SETTINGS["grad_scale"]
        momentum.lerp_(grad, 1 - decay)
        update = orthogonalised(grad.lerp(momentum, decay))
        factor = 0.2 * max(param.shape) ** 0.5
        weight.mul_(1 - lr * SETTINGS["weight_decay"]).sub_(update, alpha=lr * factor)
        if masters:
            param.copy_(weight)


def lists_of(*shapes: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensors, ...]:
    """Parameters, gradients, momentums and, for 16-bit parameters, masters of the shapes."""
    params, grads, exp_avgs, _, masters = adamw.lists_of(*shapes, dtype=dtype)
    return params, grads, exp_avgs, masters


CASES = OperatorCases(
    operator=lambda *lists: on_copies(fused_in_place, *lists),
    naive=lambda *lists: on_copies(naive_in_place, *lists),
    covers=("muon_",),
    cases={
        "wide, tall and square": lambda dtype: lists_of((9, 40), (33, 7), (16, 16), dtype=dtype),
        "a row and a column": lambda dtype: lists_of((1, 31), (31, 1), dtype=dtype),
        "no parameters": lambda dtype: lists_of(dtype=dtype),
    },
    bench={"1024x1024, 1024x2816": lambda dtype: lists_of((1024, 1024), (1024, 2816), dtype=dtype)},
    differentiable=False,
    in_place=(fused_in_place, naive_in_place),
    same_on_any_threads=False,
)
