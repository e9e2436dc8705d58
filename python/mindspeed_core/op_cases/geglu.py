"""GeGLU."""

import torch

from mindspeed_core.op_cases import ROW_SIZES, OperatorCases, random, strided, total_bytes
from mindspeed_core.op_cases.swiglu import packed_halves


def naive(gate: torch.Tensor, up: torch.Tensor, approximate: str = "tanh") -> torch.Tensor:
    """The formula, in the dtype of gate."""
    return torch.nn.functional.gelu(gate, approximate=approximate) * up


CASES = OperatorCases(
    operator=torch.ops.mindspeed.geglu,
    naive=naive,
    covers=("geglu", "geglu_backward"),
    cases={
        **{
            f"size {size}, {form}": lambda dtype, size=size, form=form: (
                random(5, 7, size, dtype=dtype, scale=3.0),
                random(5, 7, size, dtype=dtype),
                form,
            )
            for size in ROW_SIZES
            for form in ("tanh", "none")
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
