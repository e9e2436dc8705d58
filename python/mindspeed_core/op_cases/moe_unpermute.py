"""Expert outputs weighted and added."""

import torch
from torch import Tensor

from mindspeed_core.op_cases import ROW_SIZES, OperatorCases, random, strided, total_bytes
from mindspeed_core.op_cases.moe_permute import choices


def naive(rows: Tensor, slots: Tensor, weights: Tensor) -> Tensor:
    """Each token's rows times their weights, in the rows' dtype."""
    places = slots.argsort().view(weights.shape)
    return (rows[places] * weights.unsqueeze(-1).to(rows.dtype)).sum(1)


def outputs(
    tokens: int, top_k: int, size: int, dtype: torch.dtype, weights_dtype: torch.dtype | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Expert outputs, where they go, and with what weights."""
    wide = torch.promote_types(dtype, torch.float32)
    return (
        random(tokens * top_k, size, dtype=dtype),
        choices(tokens, top_k, 8).flatten().argsort(stable=True),
        random(tokens, top_k, dtype=weights_dtype or wide),
    )


def with_strided_rows(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Rows with gaps between them."""
    _, slots, weights = outputs(6, 2, 33, dtype)
    return strided(12, 2, 33, dtype=dtype)[:, 1].detach().requires_grad_(), slots, weights


CASES = OperatorCases(
    operator=torch.ops.mindspeed.moe_unpermute,
    naive=naive,
    covers=("moe_unpermute", "moe_unpermute_backward"),
    cases={
        "small": lambda dtype: outputs(4, 2, 5, dtype),
        **{
            f"size {size}": lambda dtype, size=size: outputs(13, 3, size, dtype)
            for size in ROW_SIZES
        },
        "weights of the rows' dtype": lambda dtype: outputs(5, 2, 33, dtype, dtype),
        "one expert": lambda dtype: outputs(5, 1, 9, dtype),
        "empty": lambda dtype: (
            random(0, 9, dtype=dtype),
            torch.zeros(0, dtype=torch.long),
            random(0, 2, dtype=torch.promote_types(dtype, torch.float32)),
        ),
        "strided": with_strided_rows,
    },
    bench={"4096x1024, 2 of 8": lambda dtype: outputs(4096, 2, 1024, dtype)},
    bytes_moved=lambda rows, slots, weights: 4 * total_bytes(rows),
)
