"""The parts of a mixture of experts, alone and together, against the dense formula."""

import re

import pytest
import torch
from measure import assert_as_exact_as_naive
from torch import Tensor

from mindspeed_core.op_cases import operator_cases, random
from mindspeed_core.op_cases.grouped_gemm import groups
from mindspeed_core.op_cases.moe_router import route
from mindspeed_core.ops import (
    gated_activation,
    grouped_gemm,
    grouped_gemm_weight_gradient_,
    moe_permute,
    moe_router,
    moe_unpermute,
)

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", operator_cases("moe_router").cases)
def test_experts_and_counts(case: str, dtype: torch.dtype):
    inputs = operator_cases("moe_router").cases[case](dtype)
    _, experts, counts = moe_router(*inputs)
    _, want_experts, want_counts = route(*inputs)
    assert torch.equal(experts, want_experts)
    assert torch.equal(counts, want_counts)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_of_equal_experts_the_first_are_chosen(dtype: torch.dtype):
    weights, experts, _ = moe_router(
        torch.zeros(2, 12, dtype=dtype), 3, num_groups=4, top_k_groups=2
    )
    assert experts.tolist() == [[0, 1, 2]] * 2
    assert (weights * 3 - 1).abs().max() < 1e-6


def test_scores_that_underflow_give_no_nan():
    logits = torch.full((2, 4), -200.0, requires_grad=True)
    weights, _, _ = moe_router(logits, 2, "sigmoid")
    weights.sum().backward()
    assert weights.isfinite().all()
    assert logits.grad.isfinite().all()


def test_a_nan_is_routed_somewhere_valid():
    weights, experts, counts = moe_router(torch.full((2, 4), torch.nan), 2)
    assert weights.isnan().all()
    assert counts.sum() == 4
    assert set(experts.flatten().tolist()) <= {0, 1, 2, 3}


def dense(x: Tensor, router: Tensor, gate_up: Tensor, down: Tensor, top_k: int) -> Tensor:
    """Every expert on every token, most of it weighted zero."""
    weights, experts, _ = route(x @ router, top_k)
    share = torch.zeros(len(x), len(gate_up), dtype=weights.dtype).scatter(1, experts, weights)
    hidden = torch.einsum("tn,enf->tef", x, gate_up)
    gate, up = hidden.chunk(2, -1)
    out = torch.einsum("tef,efn->ten", torch.nn.functional.silu(gate) * up, down)
    return (out * share.to(x.dtype).unsqueeze(-1)).sum(1)


def sparse(x: Tensor, router: Tensor, gate_up: Tensor, down: Tensor, top_k: int) -> Tensor:
    """The same by our operators."""
    weights, experts, counts = moe_router(x @ router, top_k)
    rows, slots = moe_permute(x, experts, len(gate_up))
    hidden = gated_activation(grouped_gemm(rows, gate_up, counts))
    return moe_unpermute(grouped_gemm(hidden, down, counts), slots, weights)


def layer(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    return (
        random(9, 6, dtype=dtype),
        random(6, 5, dtype=dtype),
        random(5, 6, 8, dtype=dtype, scale=0.5),
        random(5, 4, 6, dtype=dtype, scale=0.5),
        2,
    )


def test_a_layer_equals_the_dense_formula():
    assert_as_exact_as_naive(sparse, dense, layer(torch.float32))
    *inputs, top_k = layer(torch.float64)
    assert torch.autograd.gradcheck(lambda *leaves: sparse(*leaves, top_k), inputs)


def test_a_layer_compiles():
    torch.compiler.reset()
    results = []
    for function in (sparse, torch.compile(sparse, backend="aot_eager", fullgraph=True)):
        inputs = layer(torch.float32)
        out = function(*inputs)
        results.append([out, *torch.autograd.grad(out.square().sum(), inputs[:4])])
    for eager, compiled in zip(*results, strict=True):
        assert torch.equal(eager, compiled)


def test_rows_lie_by_expert_in_the_tokens_order():
    experts = torch.tensor([[2, 0], [0, 1], [2, 1]])
    x = torch.arange(3.0)[:, None]
    rows, slots = moe_permute(x, experts, 4)
    assert slots.tolist() == [1, 2, 3, 5, 0, 4]
    assert rows.flatten().tolist() == [0, 1, 1, 2, 0, 2]


@pytest.mark.parametrize("counts", [(5, 0, 3, 8), (4, 4, 4, 4)], ids=["unequal", "equal"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradient_added_to_the_one_there(counts: tuple[int, ...], dtype: torch.dtype):
    rows, _, sizes = groups(counts, 7, 5, dtype)
    grad = random(16, 5, dtype=dtype, grad=False)

    def ours(total: Tensor, rows: Tensor, grad: Tensor) -> Tensor:
        total = total.clone()
        grouped_gemm_weight_gradient_(total, rows, grad, sizes)
        return total

    def naive(total: Tensor, rows: Tensor, grad: Tensor) -> Tensor:
        pairs = zip(rows.split(list(counts)), grad.split(list(counts)), strict=True)
        return total + torch.stack([r.t() @ g for r, g in pairs])

    main = random(4, 7, 5, dtype=torch.promote_types(dtype, torch.float32), grad=False)
    assert_as_exact_as_naive(ours, naive, (main, rows.detach(), grad))


def test_the_gradient_of_rows_is_differentiable_in_weight():
    rows, weight, counts = groups((2, 0, 3), 4, 3, torch.float64)
    cotangent = random(5, 3, dtype=torch.float64, grad=False)

    def grad_rows(weight: Tensor) -> Tensor:
        out = grouped_gemm(rows, weight, counts)
        return torch.autograd.grad(out, rows, cotangent, create_graph=True)[0]

    assert torch.autograd.gradcheck(grad_rows, weight)


def test_opcheck_of_what_is_not_differentiable():
    rows, _, counts = groups((2, 0, 3), 4, 3, torch.float32)
    grad = random(5, 3, dtype=torch.float32, grad=False)
    ops = torch.ops.mindspeed
    main = torch.zeros(3, 4, 3)
    torch.library.opcheck(
        ops.grouped_gemm_weight_gradient_.default, (main, rows.detach(), grad, counts)
    )
    torch.library.opcheck(
        ops.linear_weight_gradient_.default, (torch.zeros(3, 4), grad, rows.detach())
    )


WRONG = [
    (
        lambda: moe_router(torch.zeros(2, 8), 3, num_groups=3),
        "num_groups must divide the number of experts (8), got 3",
    ),
    (
        lambda: moe_router(torch.zeros(2, 8), 5, num_groups=4, top_k_groups=2),
        "top_k must lie in [1, 4], the experts of top_k_groups groups, got 5",
    ),
    (
        lambda: moe_router(torch.zeros(2, 8), 2, num_groups=2, top_k_groups=3),
        "top_k_groups must lie in [1, 2], the number of groups, got 3",
    ),
    (
        lambda: moe_router(torch.zeros(2, 8), 2, "tanh"),
        "score must be 'softmax' or 'sigmoid', got 'tanh'",
    ),
    (
        lambda: moe_router(torch.zeros(2, 4), 1, correction_bias=torch.zeros(4), num_groups=4),
        "groups must have at least two experts when a correction bias is given",
    ),
    (
        lambda: moe_router(
            torch.zeros(2, 4), 2, correction_bias=torch.zeros(4, requires_grad=True)
        ),
        "correction_bias must not require a gradient",
    ),
    (
        lambda: moe_permute(torch.zeros(2, 3), torch.tensor([[0, 1], [4, 2]]), 4),
        "experts must lie in [0, 4), got 4 for token 1",
    ),
    (
        lambda: moe_permute(torch.zeros(2, 3), torch.zeros(3, 1, dtype=torch.long), 4),
        "experts must have shape [2, K], the experts of each row of x, got [3, 1]",
    ),
    (
        lambda: moe_unpermute(torch.zeros(4, 3), torch.tensor([0, 1, 1, 2]), torch.zeros(2, 2)),
        "slots must hold each of 0 .. 3 once, got 1 at place 2",
    ),
    (
        lambda: moe_unpermute(torch.zeros(3, 3), torch.arange(3), torch.zeros(2, 2)),
        "rows must have shape [4, N]",
    ),
    (
        lambda: grouped_gemm(torch.zeros(3, 2), torch.zeros(2, 2, 2), torch.tensor([1, 1])),
        "tokens_per_expert must be at least 0 and add up to the number of rows (3), got a sum of 2",
    ),
    (
        lambda: grouped_gemm(torch.zeros(3, 2), torch.zeros(2, 2, 2), torch.tensor([4, -1])),
        "got a sum of 3 with negative counts",
    ),
    (
        lambda: grouped_gemm(torch.zeros(3, 2), torch.zeros(2, 5, 2), torch.tensor([1, 2])),
        "weight must have shape [2, 2, N]",
    ),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_arguments(call, message: str):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
