"""SwiGLU."""

import torch

from mindspeed_core.op_cases import ROW_SIZES, OperatorCases, random, strided, total_bytes


def naive(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """The formula, in the dtype of gate."""
    return torch.nn.functional.silu(gate) * up


def packed_halves(rows: int, size: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Gate and up as the two halves of each row of one tensor, as a fused projection gives them."""
    gate, up = random(rows, 2 * size, dtype=dtype, grad=False).chunk(2, -1)
    return gate.requires_grad_(), up.requires_grad_()


CASES = OperatorCases(
    operator=torch.ops.mindspeed.swiglu,
    naive=naive,
    covers=("swiglu", "swiglu_backward"),
    cases={
        **{
            f"size {size}": lambda dtype, size=size: (
                random(5, 7, size, dtype=dtype, scale=3.0),
                random(5, 7, size, dtype=dtype),
            )
            for size in ROW_SIZES
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
