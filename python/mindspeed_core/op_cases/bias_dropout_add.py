"""Bias, dropout and residual addition in one pass."""

import torch
from torch import Tensor

from mindspeed_core.op_cases import ROW_SIZES, OperatorCases, random, strided, total_bytes

LOW32 = 0xFFFFFFFF
SEED = 0x1234_5678_9ABC


def mix(value: Tensor) -> Tensor:
    """The operator's 32-bit hash of int64 numbers below 2^32."""
    value = value ^ (value >> 16)
    value = (value * 0x7FEB352D) & LOW32
    value = value ^ (value >> 15)
    value = (value * 0x846CA68B) & LOW32
    return value ^ (value >> 16)


def dropped(shape: torch.Size, p: float, seed: int) -> Tensor:
    """Which elements the operator drops."""
    rows = torch.arange(shape[:-1].numel())[:, None]
    columns = torch.arange(shape[-1])
    by_seed = mix(torch.tensor(seed & LOW32) ^ mix(torch.tensor((seed >> 32) & LOW32)))
    row_key = mix(by_seed ^ mix(mix(rows)))
    draw = mix(((columns * 0x9E3779B1) & LOW32) ^ row_key)
    return (draw < int(p * 2**32)).view(shape)


def naive(x: Tensor, bias: Tensor | None, residual: Tensor, p: float, seed: int) -> Tensor:
    """The formula, in the dtype of x, with the operator's mask."""
    if bias is not None:
        x = x + bias.to(x.dtype)
    return residual + x.masked_fill(dropped(x.shape, p, seed), 0) / (1 - p)


def torch_layer(x: Tensor, bias: Tensor, residual: Tensor, p: float, seed: int) -> Tensor:
    """The same with torch's dropout, for the bench: another mask."""
    return residual + torch.nn.functional.dropout(x + bias, p)


CASES = OperatorCases(
    operator=torch.ops.mindspeed.bias_dropout_add,
    naive=naive,
    covers=("bias_dropout_add", "bias_dropout_add_backward"),
    cases={
        **{
            f"size {size}": lambda dtype, size=size: (
                random(3, 5, size, dtype=dtype),
                random(size, dtype=dtype),
                random(3, 5, size, dtype=dtype, scale=2.0),
                0.3,
                SEED,
            )
            for size in ROW_SIZES
        },
        "no bias": lambda dtype: (
            random(6, 9, dtype=dtype),
            None,
            random(6, 9, dtype=dtype),
            0.5,
            -1,
        ),
        "no dropout": lambda dtype: (
            random(6, 9, dtype=dtype),
            random(9, dtype=dtype),
            random(6, 9, dtype=dtype),
            0.0,
            1,
        ),
        "many rows": lambda dtype: (
            random(2100, 16, dtype=dtype),
            random(16, dtype=dtype),
            random(2100, 16, dtype=dtype),
            0.1,
            7,
        ),
        "empty": lambda dtype: (
            random(0, 33, dtype=dtype),
            random(33, dtype=dtype),
            random(0, 33, dtype=dtype),
            0.1,
            7,
        ),
        "strided": lambda dtype: (
            strided(3, 5, 33, dtype=dtype),
            random(33, dtype=dtype),
            random(3, 5, 33, dtype=dtype),
            0.1,
            7,
        ),
    },
    bench={
        f"2048x{size}": lambda dtype, size=size: (
            random(2048, size, dtype=dtype),
            random(size, dtype=dtype),
            random(2048, size, dtype=dtype),
            0.1,
            1234,
        )
        for size in (512, 4096)
    },
    bytes_moved=lambda x, bias, residual, p, seed: 5 * total_bytes(x),
    in_place=(torch.ops.mindspeed.bias_dropout_add, torch_layer),
)
