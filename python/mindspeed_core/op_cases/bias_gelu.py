"""GELU of a linear layer's output and bias."""

import torch
from torch import Tensor

from mindspeed_core.op_cases import ROW_SIZES, OperatorCases, random, strided, total_bytes

GELU_FORMS = {"gelu": "none", "gelu_tanh": "tanh"}


def naive(x: Tensor, bias: Tensor | None = None, approximate: str = "tanh") -> Tensor:
    """The formula, in the dtype of x."""
    if bias is not None:
        x = x + bias.to(x.dtype)
    return torch.nn.functional.gelu(x, approximate=approximate)


CASES = OperatorCases(
    operator=torch.ops.mindspeed.bias_gelu,
    naive=naive,
    covers=("bias_gelu", "bias_gelu_backward"),
    cases={
        **{
            f"size {size}, {form}": lambda dtype, size=size, form=form: (
                random(3, 5, size, dtype=dtype, scale=3.0),
                random(size, dtype=dtype),
                form,
            )
            for size in ROW_SIZES
            for form in GELU_FORMS.values()
        },
        "no bias": lambda dtype: (random(6, 33, dtype=dtype), None, "none"),
        "many rows": lambda dtype: (random(2100, 16, dtype=dtype), random(16, dtype=dtype)),
        "large values": lambda dtype: (random(8, 33, dtype=dtype, scale=60.0), None, "none"),
        "empty": lambda dtype: (random(0, 33, dtype=dtype), random(33, dtype=dtype)),
        "strided": lambda dtype: (strided(3, 5, 33, dtype=dtype), random(33, dtype=dtype)),
    },
    bench={
        f"2048x{size}": lambda dtype, size=size: (
            random(2048, size, dtype=dtype),
            random(size, dtype=dtype),
        )
        for size in (2048, 8192)
    },
    bytes_moved=lambda x, bias: 5 * total_bytes(x),
)
