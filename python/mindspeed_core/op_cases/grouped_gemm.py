"""One linear map an expert."""

import torch
from torch import Tensor

from mindspeed_core.op_cases import OperatorCases, random, strided


def naive(rows: Tensor, weight: Tensor, tokens_per_expert: Tensor) -> Tensor:
    """Every expert on its rows, one after the other."""
    groups = rows.split(tokens_per_expert.tolist())
    return torch.cat([group @ matrix for group, matrix in zip(groups, weight, strict=True)])


def groups(
    counts: tuple[int, ...], inputs: int, outputs: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of each expert, and its matrix."""
    return (
        random(sum(counts), inputs, dtype=dtype),
        random(len(counts), inputs, outputs, dtype=dtype, scale=inputs**-0.5),
        torch.tensor(counts),
    )


def all_strided(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Rows with gaps, matrices transposed in memory."""
    weight = random(3, 9, 33, dtype=dtype, grad=False, scale=0.2).transpose(1, 2).requires_grad_()
    rows = strided(7, 2, 33, dtype=dtype)[:, 1].detach().requires_grad_()
    return rows, weight, torch.tensor([2, 0, 5])


CASES = OperatorCases(
    operator=torch.ops.mindspeed.grouped_gemm,
    naive=naive,
    covers=(
        "grouped_gemm",
        "grouped_gemm_weight_gradient",
        "grouped_gemm_weight_gradient_",
    ),
    cases={
        "small": lambda dtype: groups((2, 0, 1), 4, 3, dtype),
        "unequal": lambda dtype: groups((7, 1, 0, 17), 33, 31, dtype),
        "equal": lambda dtype: groups((6, 6, 6), 16, 9, dtype),
        "one expert": lambda dtype: groups((5,), 8, 8, dtype),
        "first and last empty": lambda dtype: groups((0, 5, 0), 8, 8, dtype),
        "empty": lambda dtype: groups((0, 0), 8, 9, dtype),
        "strided": all_strided,
    },
    bench={
        "unequal": lambda dtype: groups((900, 50, 300, 798, 0, 512, 1024, 512), 512, 1024, dtype),
        "equal": lambda dtype: groups((512,) * 8, 512, 1024, dtype),
    },
    same_on_any_threads=False,
)
