"""A gated linear unit over one packed gate-up matrix."""

import torch
from torch import Tensor

from mindspeed_core.op_cases import ROW_SIZES, OperatorCases, random, strided, total_bytes
from mindspeed_core.op_cases.bias_gelu import GELU_FORMS

ACTIVATIONS = ("silu", "gelu", "gelu_tanh")


def naive(gate_up: Tensor, bias: Tensor | None = None, activation: str = "silu") -> Tensor:
    """The formula, in the dtype of gate_up."""
    if bias is not None:
        gate_up = gate_up + bias.to(gate_up.dtype)
    gate, up = gate_up.chunk(2, -1)
    if activation == "silu":
        return torch.nn.functional.silu(gate) * up
    return torch.nn.functional.gelu(gate, approximate=GELU_FORMS[activation]) * up


CASES = OperatorCases(
    operator=torch.ops.mindspeed.gated_activation,
    naive=naive,
    covers=("gated_activation", "gated_activation_backward"),
    cases={
        **{
            f"size {size}, {activation}": lambda dtype, size=size, activation=activation: (
                random(3, 5, 2 * size, dtype=dtype, scale=3.0),
                None,
                activation,
            )
            for size in ROW_SIZES
            for activation in ACTIVATIONS
        },
        **{
            f"bias, {activation}": lambda dtype, activation=activation: (
                random(41, 66, dtype=dtype),
                random(66, dtype=dtype),
                activation,
            )
            for activation in ACTIVATIONS
        },
        "small, with bias": lambda dtype: (random(3, 10, dtype=dtype), random(10, dtype=dtype)),
        "float32 bias": lambda dtype: (
            random(4, 34, dtype=dtype),
            random(34, dtype=torch.float64 if dtype == torch.float64 else torch.float32),
        ),
        "large values": lambda dtype: (random(8, 66, dtype=dtype, scale=60.0), None, "gelu"),
        "empty": lambda dtype: (random(0, 66, dtype=dtype), random(66, dtype=dtype)),
        "strided": lambda dtype: (strided(3, 5, 66, dtype=dtype), random(66, dtype=dtype)),
    },
    bench={
        f"2048x{size}": lambda dtype, size=size: (random(2048, 2 * size, dtype=dtype),)
        for size in (1376, 11008)
    },
    bytes_moved=lambda gate_up: 4 * total_bytes(gate_up),
)
