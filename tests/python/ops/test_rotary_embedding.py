"""The rotation in place: over its own memory, under autograd, compiled."""

import pytest
import torch
from torch import Tensor

from mindspeed_core.op_cases import operator_cases, random
from mindspeed_core.op_cases.rotary_embedding import POSITIONS, tables
from mindspeed_core.ops import rotary_embedding, rotary_embedding_

CASES = operator_cases("rotary_embedding").cases
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_equals_the_rotation_into_new_memory(case: str, dtype: torch.dtype):
    x, *rest = CASES[case](dtype)
    want = rotary_embedding(x, *rest)
    with torch.no_grad():
        returned = rotary_embedding_(x, *rest)
    assert returned is x
    assert torch.equal(x, want)


def test_neighbours_of_a_part_are_left_alone():
    whole = random(10, 4, 24, dtype=torch.float32, grad=False)
    before = whole.clone()
    part = whole[:, 1:3, 8:]  # the last 16 of 24 elements of heads 1 and 2, as DeepSeek rotates
    rotary_embedding_(part, *tables(4, 8, torch.float32), POSITIONS, True)
    want = rotary_embedding(before[:, 1:3, 8:], *tables(4, 8, torch.float32), POSITIONS, True)
    assert torch.equal(part, want)
    part.copy_(before[:, 1:3, 8:])
    assert torch.equal(whole, before)


def through_both(weight: Tensor, rotate) -> Tensor:
    """A function of weight that rotates an intermediate tensor, and a view of one."""
    rows = torch.arange(80.0, dtype=weight.dtype).view(10, 8) / 80 @ weight
    heads = rows.view(10, 2, 12)
    turned = rotate(heads * 2)
    part = (heads * 3).contiguous()
    return turned.square().sum() + rotate(part[..., 4:]).pow(3).sum()


def test_gradient_is_the_inverse_rotation():
    angles = tables(4, 4, torch.float64)
    gradients = []
    for rotate in (rotary_embedding, rotary_embedding_):
        weight = random(8, 24, dtype=torch.float64)
        value = through_both(weight, lambda x, rotate=rotate: rotate(x, *angles, POSITIONS))
        gradients.append(torch.autograd.grad(value, weight)[0])
    assert torch.equal(*gradients)


def test_gradcheck_in_place():
    angles = tables(3, 2, torch.float64)
    x = random(3, 2, 5, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: rotary_embedding_(x.clone(), *angles, None, True), x)


def test_what_was_saved_before_is_noticed():
    x = random(3, 2, 4, dtype=torch.float32)
    y = x * 1
    saved = y.square()
    rotary_embedding_(y, *tables(3, 2, torch.float32))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()


def test_a_leaf_is_refused_and_stays_as_it_was():
    x = random(3, 2, 4, dtype=torch.float32)
    before = x.detach().clone()
    with pytest.raises(ValueError, match="must not be a leaf that requires a gradient"):
        rotary_embedding_(x, *tables(3, 2, torch.float32))
    assert torch.equal(x.detach(), before)


def test_shared_memory_is_refused():
    x = torch.zeros(3, 1, 4).expand(3, 2, 4)
    with pytest.raises(ValueError, match=r"each element in a place of its own.*clone\(\) x"):
        rotary_embedding_(x, *tables(3, 2, torch.float32))


def test_opcheck_in_place():
    x = random(3, 2, 6, dtype=torch.float32)
    operator = torch.ops.mindspeed.rotary_embedding_.default
    angles = tables(3, 2, torch.float32)
    torch.library.opcheck(operator, (x.detach(), *angles))
    torch.library.opcheck(operator, ((x * 1), *angles, torch.tensor([2, 0, 1])))


def test_compiles_in_place():
    torch.compiler.reset()
    angles = tables(4, 4, torch.float32)

    def step(weight: Tensor) -> Tensor:
        return through_both(weight, lambda x: rotary_embedding_(x, *angles, POSITIONS))

    results = []
    for function in (step, torch.compile(step, backend="aot_eager", fullgraph=True)):
        weight = random(8, 24, dtype=torch.float32)
        value = function(weight)
        results.append((value.detach(), torch.autograd.grad(value, weight)[0]))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
