"""Residual addition and RMSNorm."""

import torch

from mindspeed_core.op_cases import ROW_SIZES, OperatorCases, random, strided, total_bytes
from mindspeed_core.op_cases.rms_norm import naive as naive_rms_norm


def naive(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """Addition, then the norm of the sum."""
    total = x + residual
    return naive_rms_norm(total, weight, eps), total


CASES = OperatorCases(
    operator=torch.ops.mindspeed.add_rms_norm,
    naive=naive,
    covers=("add_rms_norm", "add_rms_norm_forward"),
    cases={
        **{
            f"size {size}": lambda dtype, size=size: (
                random(5, 7, size, dtype=dtype),
                random(5, 7, size, dtype=dtype, scale=0.5),
                random(size, dtype=dtype),
            )
            for size in ROW_SIZES
        },
        "many rows": lambda dtype: (
            random(2100, 16, dtype=dtype),
            random(2100, 16, dtype=dtype, scale=0.5),
            random(16, dtype=dtype),
        ),
        "empty": lambda dtype: (
            random(0, 33, dtype=dtype),
            random(0, 33, dtype=dtype),
            random(33, dtype=dtype),
        ),
        "strided": lambda dtype: (
            strided(3, 5, 33, dtype=dtype),
            random(3, 5, 33, dtype=dtype),
            random(33, dtype=dtype),
        ),
    },
    bench={
        f"{rows}x{size}": lambda dtype, rows=rows, size=size: (
            random(rows, size, dtype=dtype),
            random(rows, size, dtype=dtype, scale=0.5),
            random(size, dtype=dtype),
        )
        for rows, size in ((2048, 512), (2048, 4096))
    },
    bytes_moved=lambda x, residual, weight: 8 * total_bytes(x),
)
