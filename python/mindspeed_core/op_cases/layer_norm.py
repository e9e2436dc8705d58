"""LayerNorm."""

import torch

from mindspeed_core.op_cases import ROW_SIZES, OperatorCases, random, strided, total_bytes


def naive(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, eps: float = 1e-5
) -> torch.Tensor:
    """The formula, in the dtype of x."""
    centred = x - x.mean(-1, keepdim=True)
    normed = centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + eps)
    scaled = normed * weight.to(x.dtype)
    return scaled if bias is None else scaled + bias.to(x.dtype)


CASES = OperatorCases(
    operator=torch.ops.mindspeed.layer_norm,
    naive=naive,
    covers=("layer_norm", "layer_norm_forward", "layer_norm_backward"),
    cases={
        **{
            f"size {size}": lambda dtype, size=size: (
                random(5, 7, size, dtype=dtype),
                random(size, dtype=dtype),
                random(size, dtype=dtype, scale=0.5),
            )
            for size in ROW_SIZES
        },
        "no bias": lambda dtype: (random(6, 33, dtype=dtype), random(33, dtype=dtype), None),
        "many rows": lambda dtype: (
            random(2100, 16, dtype=dtype),
            random(16, dtype=dtype),
            random(16, dtype=dtype),
        ),
        "empty": lambda dtype: (random(0, 33, dtype=dtype), random(33, dtype=dtype), None),
        "strided": lambda dtype: (
            strided(3, 5, 33, dtype=dtype),
            random(33, dtype=dtype),
            random(33, dtype=dtype),
        ),
    },
    bench={
        f"2048x{size}": lambda dtype, size=size: (
            random(2048, size, dtype=dtype),
            random(size, dtype=dtype),
            random(size, dtype=dtype),
        )
        for size in (512, 4096)
    },
    bytes_moved=lambda x, weight, bias: 5 * total_bytes(x),
)
