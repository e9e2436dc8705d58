"""The AdamW step over lists of parameters."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam

from mindspeed_core.op_cases import OperatorCases, random

Tensors = list[Tensor]
SETTINGS: dict[str, Any] = {
    "lr": 3e-3,
    "beta1": 0.9,
    "beta2": 0.95,
    "eps": 1e-8,
    "weight_decay": 0.1,
    "step": 3,
    "grad_scale": 0.7,
}
SHAPES = ((4096, 1024), (4096, 1024), (1024,))  # of the bench


def on_copies(step: Callable[..., Any], *lists: Tensors) -> tuple[Tensor, ...]:
    """What an in-place step leaves in its lists, gradients (the second list) aside, as float outputs."""
    copies = [[tensor.detach().clone() for tensor in values] for values in lists]
    step(*copies)
    return tuple(tensor for index, values in enumerate(copies) if index != 1 for tensor in values)


def fused_in_place(*lists: Tensors) -> None:
    """The operator."""
    torch.ops.mindspeed.adamw_(*lists, **SETTINGS)


def naive_in_place(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, masters: Tensors
) -> None:
    """torch.optim.AdamW's single-tensor steps, with the scaling of gradients that clipping asks for."""
    beta1, beta2, lr = SETTINGS["beta1"], SETTINGS["beta2"], SETTINGS["lr"]
    root = (1 - beta2 ** SETTINGS["step"]) ** 0.5
    step_size = lr / (1 - beta1 ** SETTINGS["step"])
    for i, (param, exp_avg, exp_avg_sq) in enumerate(
        zip(params, exp_avgs, exp_avg_sqs, strict=True)
    ):
        weight = masters[i] if masters else param
        grad = grads[i].to(exp_avg.dtype) * SETTINGS["grad_scale"]
        weight.mul_(1 - lr * SETTINGS["weight_decay"])
        exp_avg.lerp_(grad, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        denominator = (exp_avg_sq.sqrt() / root).add_(SETTINGS["eps"])
        weight.addcdiv_(exp_avg, denominator, value=-step_size)
        if masters:
            param.copy_(weight)


@cache
def bench_moments() -> tuple[Tensors, Tensors]:
    """Float32 moments for AdamW where the operator in question keeps others."""
    return [torch.ones(shape) for shape in SHAPES], [torch.ones(shape) for shape in SHAPES]


def torch_adamw(fused: bool) -> Callable[..., None]:
    """One of torch's own multi-tensor steps of float32 parameters, on the same lists."""

    def step(
        params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, masters: Tensors
    ) -> None:
        adam(
            masters or params,
            [grad.to(torch.float32) for grad in grads],
            exp_avgs,
            exp_avg_sqs,
            [],
            [torch.tensor(float(SETTINGS["step"])) for _ in params],
            amsgrad=False,
            maximize=False,
            decoupled_weight_decay=True,
            **{key: SETTINGS[key] for key in ("lr", "beta1", "beta2", "eps", "weight_decay")},
            fused=fused,
            foreach=not fused,
        )

    return step


def lists_of(*shapes: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensors, ...]:
    """Parameters, gradients, two moments and, for 16-bit parameters, masters of the shapes."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    weights = [random(*shape, dtype=wide, grad=False) for shape in shapes]
    grads = [random(*shape, dtype=dtype, grad=False, scale=0.3).flip(0) for shape in shapes]
    exp_avgs = [grad.to(wide) * 0.5 for grad in grads]
    exp_avg_sqs = [grad.to(wide).square() * 0.1 for grad in grads]
    params = [weight.to(dtype) for weight in weights]
    return params, grads, exp_avgs, exp_avg_sqs, weights if dtype != wide else []


def with_strided_gradient(dtype: torch.dtype) -> tuple[Tensors, ...]:
    """A gradient that lies transposed in memory."""
    params, _, *others = lists_of((5, 33), dtype=dtype)
    return params, [random(33, 5, dtype=dtype, grad=False).t()], *others


def cases_of(
    make: Callable[..., tuple[Tensors, ...]],
) -> dict[str, Callable[[torch.dtype], tuple[Any, ...]]]:
    """The lists that every elementwise optimizer is tested on; ``make(*shapes, dtype=...)`` fills them."""
    return {
        "odd sizes": lambda dtype: make((1,), (31,), (33, 3), (257,), dtype=dtype),
        "several runs": lambda dtype: make((40001,), (16384,), dtype=dtype),
        "an empty shard": lambda dtype: make((0, 4), (9,), dtype=dtype),
        "no parameters": lambda dtype: make(dtype=dtype),
    }


TORCH_STEPS = {
    "foreach": torch_adamw(fused=False),
    "fused": torch_adamw(fused=True),
}
CASES = OperatorCases(
    operator=lambda *lists: on_copies(fused_in_place, *lists),
    naive=lambda *lists: on_copies(naive_in_place, *lists),
    covers=("adamw_",),
    cases={**cases_of(lists_of), "strided gradient": with_strided_gradient},
    bench={"8M": lambda dtype: lists_of(*SHAPES, dtype=dtype)},
    differentiable=False,
    in_place=(fused_in_place, naive_in_place),
    peers=TORCH_STEPS,
)
