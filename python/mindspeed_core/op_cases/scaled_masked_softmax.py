"""Softmax of scaled, masked attention scores."""

import torch
from torch import Tensor

from mindspeed_core.op_cases import ROW_SIZES, OperatorCases, random, strided, total_bytes


def naive(
    x: Tensor, mask: Tensor | None = None, scale: float = 1.0, causal: bool = False
) -> Tensor:
    """The formula, in the dtype of x; a row that sees nothing is zero."""
    hidden = torch.zeros(x.shape, dtype=torch.bool)
    if mask is not None:
        hidden = hidden | mask
    if causal:
        queries, keys = x.shape[-2:]
        hidden = hidden | torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries + 1)
    nothing = hidden.all(-1, keepdim=True)
    scores = (x * scale).masked_fill(hidden & ~nothing, -torch.inf)
    return scores.softmax(-1).masked_fill(nothing, 0)


def hidden(*shape: int) -> Tensor:
    """A mask that leaves out about a third, and all of row 1."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(5)) < 0.3
    mask[..., min(1, shape[-2] - 1), :] = True
    return mask


CASES = OperatorCases(
    operator=torch.ops.mindspeed.scaled_masked_softmax,
    naive=naive,
    covers=("scaled_masked_softmax", "scaled_masked_softmax_backward"),
    cases={
        "small": lambda dtype: (random(2, 3, 7, dtype=dtype), hidden(3, 7), 0.5, True),
        **{
            f"size {size}": lambda dtype, size=size: (
                random(2, 3, 4, size, dtype=dtype, scale=3.0),
            )
            for size in ROW_SIZES
        },
        **{
            f"causal {queries}x{keys}": lambda dtype, shape=(queries, keys): (
                random(2, *shape, dtype=dtype),
                None,
                0.125,
                True,
            )
            for queries, keys in ((1, 1), (17, 17), (3, 33), (33, 9))
        },
        **{
            f"mask {shape}": lambda dtype, shape=shape: (
                random(2, 3, 5, 37, dtype=dtype),
                hidden(*shape),
                0.3,
            )
            for shape in ((2, 1, 5, 37), (2, 1, 1, 37), (5, 37), (3, 1, 1), (2, 3, 5, 1))
        },
        "large values": lambda dtype: (random(4, 33, dtype=dtype, scale=100.0), None, 10.0),
        "empty": lambda dtype: (random(0, 4, 9, dtype=dtype), hidden(4, 9)),
        "strided": lambda dtype: (strided(3, 5, 33, dtype=dtype), hidden(5, 33), 2.0),
    },
    bench={
        "8x1024x1024": lambda dtype: (random(8, 1024, 1024, dtype=dtype), None, 0.125),
        "causal": lambda dtype: (random(8, 1024, 1024, dtype=dtype), None, 0.125, True),
        "8x512x2048": lambda dtype: (
            random(8, 512, 2048, dtype=dtype),
            hidden(512, 2048),
            0.125,
        ),
    },
    bytes_moved=lambda x, *_: 5 * total_bytes(x),
)
