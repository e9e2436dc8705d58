"""What each fused operator is tested and measured on: one module an operator, with a constant ``CASES``.

The tests (``tests/python/ops``) and ``mindspeed bench ops`` read the same modules, so neither can
forget an operator.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

FLOAT_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
ROW_SIZES = (1, 31, 33, 257)  # around vector lengths, and the smallest

MakeInputs = Callable[[torch.dtype], tuple[Any, ...]]


@dataclass(frozen=True)
class OperatorCases:
    """An operator, the formula it must equal, and inputs for both.

    Inputs are positional arguments; tensors in them that require gradients are those that are
    differentiated. A maker takes the dtype of the activations and gives the same numbers each time.
    """

    operator: Callable[..., Any]  # returns a tensor or a tuple of tensors
    naive: Callable[..., Any]  # the plain PyTorch formula, in the dtype of its inputs
    covers: tuple[str, ...]  # the torch.ops.mindspeed names that these cases exercise
    cases: Mapping[str, MakeInputs]
    bench: Mapping[str, MakeInputs]
    dtypes: tuple[torch.dtype, ...] = FLOAT_DTYPES
    differentiable: bool = True
    # (ours, peer) for the bench, where tests need wrappers that copy, or a formula that repeats our random numbers
    in_place: tuple[Callable[..., Any], Callable[..., Any]] | None = None
    # more contestants of the bench by name, on the inputs that ours takes there
    peers: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    same_on_any_threads: bool = True  # False where torch's GEMM adds up in an order of its own
    # moved bytes of one forward and backward, from the inputs; None where another measure says more
    bytes_moved: Callable[..., int] | None = field(default=None)
    # a second plain formula, whose rounding the operator's mathematics has by itself; the worse of both sets the bound
    rounded: Callable[..., Any] | None = field(default=None)


def operator_names() -> list[str]:
    """Names of all operators that have a case module, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def operator_cases(name: str) -> OperatorCases:
    """The cases of one operator."""
    cases = importlib.import_module(f"{__name__}.{name}").CASES
    assert isinstance(cases, OperatorCases)
    return cases


def random(*shape: int, dtype: torch.dtype, grad: bool = True, scale: float = 1.0) -> torch.Tensor:
    """Normally distributed numbers that depend on the shape alone."""
    generator = torch.Generator().manual_seed(1234 + sum(shape))
    return (scale * torch.randn(shape, generator=generator)).to(dtype).requires_grad_(grad)


def strided(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """Like random, but with the first two dims swapped in memory and gaps between rows."""
    first, second, *rest, last = shape
    dense = random(second, first, *rest, 2 * last, dtype=dtype, grad=False)
    return dense.transpose(0, 1)[..., :last].requires_grad_()


def total_bytes(*tensors: torch.Tensor) -> int:
    """Bytes of the tensors' elements."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
