"""RMSNorm."""

import torch

from mindspeed_core.op_cases import ROW_SIZES, OperatorCases, random, strided, total_bytes


def naive(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """The formula as Hugging Face's LLaMA writes it, in the dtype of x."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight.to(x.dtype)


CASES = OperatorCases(
    operator=torch.ops.mindspeed.rms_norm,
    naive=naive,
    covers=("rms_norm", "rms_norm_forward", "rms_norm_backward"),
    cases={
        **{
            f"size {size}": lambda dtype, size=size: (
                random(5, 7, size, dtype=dtype),
                random(size, dtype=dtype),
            )
            for size in ROW_SIZES
        },
        "one dim": lambda dtype: (random(33, dtype=dtype), random(33, dtype=dtype)),
        "many rows": lambda dtype: (random(2100, 16, dtype=dtype), random(16, dtype=dtype)),
        "empty": lambda dtype: (random(0, 33, dtype=dtype), random(33, dtype=dtype)),
        "strided": lambda dtype: (strided(3, 5, 33, dtype=dtype), random(33, dtype=dtype)),
        "float32 weight": lambda dtype: (
            random(9, 64, dtype=dtype),
            random(64, dtype=torch.float64 if dtype == torch.float64 else torch.float32),
        ),
        "large eps": lambda dtype: (random(4, 31, dtype=dtype), random(31, dtype=dtype), 0.5),
    },
    bench={
        "2048x512": lambda dtype: (random(2048, 512, dtype=dtype), random(512, dtype=dtype)),
        "2048x4096": lambda dtype: (random(2048, 4096, dtype=dtype), random(4096, dtype=dtype)),
    },
    bytes_moved=lambda x, weight: 5 * total_bytes(x),  # read x, write y; read x and dy, write dx
)
