"""The sum of squares of all tensors of a list."""

import torch

from mindspeed_core.op_cases import OperatorCases, random


def fused(tensors: list[torch.Tensor]) -> torch.Tensor:
    """The operator."""
    return torch.ops.mindspeed.squared_norm(tensors)


def naive(tensors: list[torch.Tensor]) -> torch.Tensor:
    """The squared norm of the norms, as torch's clipping computes it."""
    norms = [torch.linalg.vector_norm(tensor) for tensor in tensors]
    return torch.stack(norms).square().sum() if norms else torch.zeros((), dtype=torch.float64)


def list_of(*shapes: tuple[int, ...], dtype: torch.dtype) -> tuple[list[torch.Tensor]]:
    """Random tensors of the shapes."""
    return ([random(*shape, dtype=dtype, grad=False) for shape in shapes],)


CASES = OperatorCases(
    operator=fused,
    naive=naive,
    covers=("squared_norm",),
    cases={
        "odd sizes": lambda dtype: list_of((1,), (31,), (33, 3), (257,), dtype=dtype),
        "several runs": lambda dtype: list_of((40001,), (32768,), dtype=dtype),
        "an empty shard": lambda dtype: list_of((0, 4), (9,), dtype=dtype),
        "no tensors": lambda dtype: ([],),
        "strided": lambda dtype: ([random(33, 5, dtype=dtype, grad=False).t()],),
    },
    bench={"8M": lambda dtype: list_of((4096, 1024), (4096, 1024), (1024,), dtype=dtype)},
    differentiable=False,
)
