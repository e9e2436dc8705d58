"""The weight gradient of a linear layer, added to the one that is there."""

import torch
from torch import Tensor

from mindspeed_core.op_cases import OperatorCases, random


def fused(grad_weight: Tensor, grad_out: Tensor, inputs: Tensor) -> Tensor:
    """The operator, on a copy."""
    total = grad_weight.clone()
    torch.ops.mindspeed.linear_weight_gradient_(total, grad_out, inputs)
    return total


def naive(grad_weight: Tensor, grad_out: Tensor, inputs: Tensor) -> Tensor:
    """A gradient of its own, then the sum."""
    return grad_weight + grad_out.flatten(0, -2).t() @ inputs.flatten(0, -2)


def fused_in_place(grad_weight: Tensor, grad_out: Tensor, inputs: Tensor) -> None:
    """The operator itself."""
    torch.ops.mindspeed.linear_weight_gradient_(grad_weight, grad_out, inputs)


def naive_in_place(grad_weight: Tensor, grad_out: Tensor, inputs: Tensor) -> None:
    """What autograd does."""
    grad_weight.add_(grad_out.flatten(0, -2).t() @ inputs.flatten(0, -2))


def layer(
    tokens: tuple[int, ...], inputs: int, outputs: int, dtype: torch.dtype, main: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """A gradient (main: at least float32), the output's gradient, the input."""
    wide = torch.promote_types(dtype, torch.float32) if main else dtype
    return (
        random(outputs, inputs, dtype=torch.float32, grad=False).to(wide),
        random(*tokens, outputs, dtype=dtype, grad=False),
        random(*tokens, inputs, dtype=dtype, grad=False),
    )


CASES = OperatorCases(
    operator=fused,
    naive=naive,
    covers=("linear_weight_gradient_",),
    cases={
        "small": lambda dtype: layer((3,), 4, 5, dtype),
        "batch": lambda dtype: layer((2, 7), 33, 31, dtype),
        "gradient of the operands' dtype": lambda dtype: layer((9,), 8, 8, dtype, main=False),
        "no tokens": lambda dtype: layer((0,), 8, 9, dtype),
        "strided": lambda dtype: (
            random(5, 7, dtype=torch.promote_types(dtype, torch.float32), grad=False).t(),
            random(7, 9, dtype=dtype, grad=False).t(),
            random(5, 9, dtype=dtype, grad=False).t(),
        ),
    },
    bench={"2048x1024x1024": lambda dtype: layer((2048,), 1024, 1024, dtype)},
    differentiable=False,
    in_place=(fused_in_place, naive_in_place),
    same_on_any_threads=False,
)
