"""The plain ATen reference, which runs on devices without kernels of their own, equals the kernels."""

import itertools

import pytest
import torch
from measure import assert_as_exact_as_naive
from torch.utils._python_dispatch import TorchDispatchMode

import mindspeed_core  # noqa: F401
from mindspeed_core.op_cases import operator_cases, operator_names
from mindspeed_core.ops.flash_attention import flash_attention

REFERENCE = torch.DispatchKey.CompositeExplicitAutograd


class References(TorchDispatchMode):
    """Runs the reference of each of our operators instead of the device's kernel."""

    def __init__(self):
        super().__init__()
        self.used: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "mindspeed" and func.has_kernel_for_dispatch_key(REFERENCE):
            self.used.add(func._opname)
            keys = torch._C.DispatchKeySet(REFERENCE)
            return func.redispatch(keys, *args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", operator_names())
def test_the_reference_is_as_exact_as_the_naive_formula(name: str):
    cases = operator_cases(name)

    def by_reference(*inputs):
        return cases.operator(*inputs)

    # an optimizer's reference has a path of its own for 16-bit parameters
    dtypes = cases.dtypes[:1] if cases.differentiable else cases.dtypes
    for make, dtype in itertools.product(cases.cases.values(), dtypes):
        with References() as mode:
            inputs = make(dtype)
            assert_as_exact_as_naive(by_reference, cases.naive, inputs, cases.rounded)
        assert mode.used


@pytest.mark.parametrize("seed", [3, 5 + 2**40])
def test_attention_drops_the_same_in_kernel_and_reference(seed: int):
    length, heads = 70, 2
    q = torch.zeros(1, length, heads, 4)
    v = torch.eye(length).view(1, length, 1, length).expand(1, length, heads, length).contiguous()
    # with equal scores and V = 1 the output is the weights: zero where dropped
    kept = flash_attention(q, q, v, dropout=0.4, seed=seed) != 0
    with References():
        assert torch.equal(kept, flash_attention(q, q, v, dropout=0.4, seed=seed) != 0)
