"""The AdamW step over lists of parameters."""

from typing import Any

import torch

from mindspeed_core.op_cases import OperatorCases, random

Tensors = list[torch.Tensor]
SETTINGS: dict[str, Any] = {
    "lr": 3e-3,
    "beta1": 0.9,
    "beta2": 0.95,
    "eps": 1e-8,
    "weight_decay": 0.1,
    "step": 3,
    "grad_scale": 0.7,
}


def fused(params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors) -> Any:
    """The operator, on copies."""
    lists = [[tensor.clone() for tensor in values] for values in (params, exp_avgs, exp_avg_sqs)]
    torch.ops.mindspeed.adamw_(lists[0], grads, lists[1], lists[2], **SETTINGS)
    return tuple(tensor for values in lists for tensor in values)


def naive(params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors) -> Any:
    """The formula a tensor at a time."""
    lr, beta1, beta2 = SETTINGS["lr"], SETTINGS["beta1"], SETTINGS["beta2"]
    updated: list[Tensors] = [[], [], []]
    for param, unscaled, exp_avg, exp_avg_sq in zip(
        params, grads, exp_avgs, exp_avg_sqs, strict=True
    ):
        grad = unscaled * SETTINGS["grad_scale"]
        first = exp_avg.lerp(grad, 1 - beta1)
        second = exp_avg_sq * beta2 + (1 - beta2) * grad * grad
        root = (1 - beta2 ** SETTINGS["step"]) ** 0.5
        step_size = lr / (1 - beta1 ** SETTINGS["step"])
        denominator = second.sqrt() / root + SETTINGS["eps"]
        updated[0].append(
            param * (1 - lr * SETTINGS["weight_decay"]) - step_size * first / denominator
        )
        updated[1].append(first)
        updated[2].append(second)
    return tuple(tensor for values in updated for tensor in values)


def fused_in_place(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors
) -> None:
    """The operator itself."""
    torch.ops.mindspeed.adamw_(params, grads, exp_avgs, exp_avg_sqs, **SETTINGS)


def naive_in_place(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors
) -> None:
    """torch.optim.AdamW's single-tensor steps, with the scaling of gradients that clipping asks for."""
    beta1, beta2, lr = SETTINGS["beta1"], SETTINGS["beta2"], SETTINGS["lr"]
    root = (1 - beta2 ** SETTINGS["step"]) ** 0.5
    step_size = lr / (1 - beta1 ** SETTINGS["step"])
    for param, unscaled, exp_avg, exp_avg_sq in zip(
        params, grads, exp_avgs, exp_avg_sqs, strict=True
    ):
        grad = unscaled * SETTINGS["grad_scale"]
        param.mul_(1 - lr * SETTINGS["weight_decay"])
        exp_avg.lerp_(grad, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        denominator = (exp_avg_sq.sqrt() / root).add_(SETTINGS["eps"])
        param.addcdiv_(exp_avg, denominator, value=-step_size)


def lists_of(*shapes: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensors, ...]:
    """Parameters, gradients and moments of the shapes."""
    params = [random(*shape, dtype=dtype, grad=False) for shape in shapes]
    grads = [random(*shape, dtype=dtype, grad=False, scale=0.3).flip(0) for shape in shapes]
    exp_avgs = [grad * 0.5 for grad in grads]
    exp_avg_sqs = [grad.square() * 0.1 for grad in grads]
    return params, grads, exp_avgs, exp_avg_sqs


def with_strided_gradient(dtype: torch.dtype) -> tuple[Tensors, ...]:
    """A gradient that lies transposed in memory."""
    params, _, exp_avgs, exp_avg_sqs = lists_of((5, 33), dtype=dtype)
    return params, [random(33, 5, dtype=dtype, grad=False).t()], exp_avgs, exp_avg_sqs


CASES = OperatorCases(
    operator=fused,
    naive=naive,
    covers=("adamw_",),
    cases={
        "odd sizes": lambda dtype: lists_of((1,), (31,), (33, 3), (257,), dtype=dtype),
        "several runs": lambda dtype: lists_of((40001,), (16384,), dtype=dtype),
        "an empty shard": lambda dtype: lists_of((0, 4), (9,), dtype=dtype),
        "no parameters": lambda dtype: ([], [], [], []),
        "strided gradient": with_strided_gradient,
    },
    bench={"8M": lambda dtype: lists_of((4096, 1024), (4096, 1024), (1024,), dtype=dtype)},
    dtypes=(torch.float32,),
    differentiable=False,
    in_place=(fused_in_place, naive_in_place),
)
