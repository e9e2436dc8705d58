"""Forward and backward of every operator, on all of its cases, against float64."""

import pytest
import torch
from measure import assert_as_exact_as_naive, outputs_and_gradients

import mindspeed_core  # noqa: F401
from mindspeed_core.op_cases import operator_cases, operator_names

GRID = [
    pytest.param(name, case, dtype, id=f"{name}-{case}-{str(dtype).removeprefix('torch.')}")
    for name in operator_names()
    for case in operator_cases(name).cases
    for dtype in operator_cases(name).dtypes
]


@pytest.mark.parametrize(("name", "case", "dtype"), GRID)
def test_is_as_exact_as_the_naive_formula(name: str, case: str, dtype: torch.dtype):
    cases = operator_cases(name)
    make = cases.cases[case]
    assert_as_exact_as_naive(cases.operator, cases.naive, make(dtype), cases.rounded)


SAME_ON_ANY_THREADS = [
    name for name in operator_names() if operator_cases(name).same_on_any_threads
]


@pytest.mark.parametrize("name", SAME_ON_ANY_THREADS)
def test_the_same_on_any_number_of_threads(name: str):
    cases = operator_cases(name)
    before = torch.get_num_threads()
    try:
        for case, make in cases.cases.items():
            results = []
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                results.append(outputs_and_gradients(cases.operator, make(cases.dtypes[0])))
            for others in results[1:]:
                same = [torch.equal(a, b) for a, b in zip(results[0], others, strict=True)]
                assert all(same), case
    finally:
        torch.set_num_threads(before)


DIFFERENTIABLE = [name for name in operator_names() if operator_cases(name).differentiable]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_not_a_number_comes_out(name: str):
    cases = operator_cases(name)
    make = next(iter(cases.bench.values()))
    inputs = make(torch.float32)
    with torch.no_grad():
        inputs[0].view(-1)[7] = float("nan")
    outputs = cases.operator(*inputs)
    first = outputs[0] if isinstance(outputs, tuple) else outputs
    assert first.isnan().any()
