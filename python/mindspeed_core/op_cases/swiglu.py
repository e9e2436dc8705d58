"""SwiGLU."""

from collections.abc import Callable

import torch
from torch import Tensor

from mindspeed_core.op_cases import ROW_SIZES, OperatorCases, random, strided, total_bytes


def naive(gate: Tensor, up: Tensor) -> Tensor:
    """The formula, in the dtype of gate."""
    return torch.nn.functional.silu(gate) * up


def packed_halves(rows: int, size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Gate and up as the two halves of each row of one tensor, as a fused projection gives them."""
    gate, up = random(rows, 2 * size, dtype=dtype, grad=False).chunk(2, -1)
    return gate.requires_grad_(), up.requires_grad_()


def gated_cases(
    name: str, formula: Callable[..., Tensor], forms: tuple[str, ...] = ()
) -> OperatorCases:
    """The cases of an operator of gate, up and, where there are several, a form: SwiGLU's and GeGLU's."""
    arguments: list[tuple[str, ...]] = [(form,) for form in forms] or [()]
    return OperatorCases(
        operator=getattr(torch.ops.mindspeed, name),
        naive=formula,
        covers=(name, f"{name}_backward"),
        cases={
            **{
                ", ".join([f"size {size}", *form]): lambda dtype, size=size, form=form: (
                    random(5, 7, size, dtype=dtype, scale=3.0),
                    random(5, 7, size, dtype=dtype),
                    *form,
                )
                for size in ROW_SIZES
                for form in arguments
            },
            "large values": lambda dtype: (
                random(8, 33, dtype=dtype, scale=60.0),
                random(8, 33, dtype=dtype),
            ),
            "packed halves": lambda dtype: packed_halves(6, 33, dtype),
            "empty": lambda dtype: (random(0, 33, dtype=dtype), random(0, 33, dtype=dtype)),
            "strided": lambda dtype: (
                strided(3, 5, 33, dtype=dtype),
                random(3, 5, 33, dtype=dtype),
            ),
        },
        bench={
            f"2048x{size}": lambda dtype, size=size: (
                random(2048, size, dtype=dtype),
                random(2048, size, dtype=dtype, scale=0.5),
            )
            for size in (1376, 11008)
        },
        bytes_moved=lambda gate, up: 8 * total_bytes(gate),
    )


CASES = gated_cases("swiglu", naive)
