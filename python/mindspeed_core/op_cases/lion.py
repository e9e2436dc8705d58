"""The Lion step over lists of parameters."""

from typing import Any

import torch

from mindspeed_core.op_cases import OperatorCases, adamw
from mindspeed_core.op_cases.adamw import SHAPES, Tensors, cases_of, on_copies

SETTINGS: dict[str, Any] = {
    "lr": 3e-3,
    "beta1": 0.9,
    "beta2": 0.99,
    "weight_decay": 0.1,
    "grad_scale": 0.7,
}


def fused_in_place(*lists: Tensors) -> None:
    """The operator."""
    torch.ops.mindspeed.lion_(*lists, **SETTINGS)


def naive_in_place(params: Tensors, grads: Tensors, exp_avgs: Tensors, masters: Tensors) -> None:
    """The formula a tensor at a time."""
    beta1, beta2, lr = SETTINGS["beta1"], SETTINGS["beta2"], SETTINGS["lr"]
    for i, (param, exp_avg) in enumerate(zip(params, exp_avgs, strict=True)):
        weight = masters[i] if masters else param
        grad = grads[i].to(exp_avg.dtype) * SETTINGS["grad_scale"]
        direction = (exp_avg * beta1 + grad * (1 - beta1)).sign_()
        weight.mul_(1 - lr * SETTINGS["weight_decay"]).sub_(direction, alpha=lr)
        exp_avg.mul_(beta2).add_(grad, alpha=1 - beta2)
        if masters:
            param.copy_(weight)


def lists_of(*shapes: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensors, ...]:
    """Parameters, gradients, a moment and, for 16-bit parameters, masters; every third gradient element is 0."""
    params, grads, exp_avgs, _, masters = adamw.lists_of(*shapes, dtype=dtype)
    for grad, exp_avg in zip(grads, exp_avgs, strict=True):
        grad.view(-1)[::3] = 0
        exp_avg.view(-1)[::6] = 0
    return params, grads, exp_avgs, masters


CASES = OperatorCases(
    operator=lambda *lists: on_copies(fused_in_place, *lists),
    naive=lambda *lists: on_copies(naive_in_place, *lists),
    covers=("lion_",),
    cases=cases_of(lists_of),
    bench={"8M": lambda dtype: lists_of(*SHAPES, dtype=dtype)},
    differentiable=False,
    in_place=(fused_in_place, naive_in_place),
    peers={
        f"AdamW {name}": lambda params, grads, _, masters, step=step: step(
            params, grads, *adamw.bench_moments(), masters
        )
        for name, step in adamw.TORCH_STEPS.items()
    },
)
