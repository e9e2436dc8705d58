"""Errors of operators against float64, and the bound they must keep."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map_only


def to_float64(inputs: Any) -> Any:
    """The same numbers as float64 leaves."""
    return tree_map_only(
        torch.Tensor,
        lambda t: (
            t.detach().double().requires_grad_(t.requires_grad) if t.is_floating_point() else t
        ),
        inputs,
    )


def outputs_and_gradients(
    function: Callable[..., Any], inputs: tuple[Any, ...]
) -> list[torch.Tensor]:
    """The function's outputs, then the gradients of its inputs under a fixed pseudo-random cotangent."""
    results = function(*inputs)
    outputs = list(results) if isinstance(results, tuple) else [results]
    leaves = [t for t in tree_flatten(inputs)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
    if not leaves:
        return outputs
    generator = torch.Generator().manual_seed(99)
    cotangents = [
        torch.randn(o.shape, generator=generator).to(torch.bfloat16).to(o.dtype) for o in outputs
    ]
    gradients = torch.autograd.grad(outputs, leaves, cotangents)
    return [o.detach() for o in outputs] + list(gradients)


def assert_as_exact_as_naive(
    operator: Callable[..., Any],
    naive: Callable[..., Any],
    inputs: tuple[Any, ...],
    rounded: Callable[..., Any] | None = None,
) -> None:
    """Each error is at most twice the naive formula's in the same dtype, plus one ulp of the largest result.

    ``rounded`` is the formula's second plain form, if it has one (see OperatorCases): the worse of the two counts.

    The largest of all results, gradients included: a small sum of large terms cannot be more exact than those.
    """
    ours = outputs_and_gradients(operator, inputs)
    theirs = outputs_and_gradients(naive, inputs)
    others = outputs_and_gradients(rounded, inputs) if rounded else theirs
    exact = outputs_and_gradients(naive, to_float64(inputs))
    assert len(ours) == len(theirs) == len(exact)
    largest = max((truth.abs().max().item() for truth in exact if truth.numel() > 0), default=0.0)
    for place, (got, *plain, truth) in enumerate(zip(ours, theirs, others, exact, strict=True)):
        assert got.shape == truth.shape
        if got.numel() == 0:
            continue
        error = (got.double() - truth).abs().max().item()
        # where the naive formula overflows to NaN it sets no bound: one ulp remains
        naive_error = max(
            (x.double() - truth).abs().nan_to_num(0, posinf=0).max().item() for x in plain
        )
        ulp = torch.finfo(got.dtype).eps * largest
        assert error <= 2 * naive_error + ulp, (
            f"result {place}: error {error:.3g}, naive {naive_error:.3g}, ulp {ulp:.3g}"
        )
