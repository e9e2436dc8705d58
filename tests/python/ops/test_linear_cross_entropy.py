"""What the shared cases cannot say of linear_cross_entropy: reductions, errors, memory, repeated backward."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mindspeed_core.op_cases.linear_cross_entropy import layer, naive
from mindspeed_core.ops.linear_cross_entropy import linear_cross_entropy


def test_mean_is_over_valid_tokens():
    hidden, weight = layer(6, 8, 20, torch.float32)
    labels = torch.tensor([3, -100, 5, -100, -100, 19])
    total = linear_cross_entropy(hidden, weight, labels, reduction="sum")
    assert torch.equal(linear_cross_entropy(hidden, weight, labels), total / 3)
    batched = linear_cross_entropy(hidden.view(2, 3, 8), weight, labels.view(2, 3))
    assert torch.equal(batched, total / 3)


def test_no_valid_token_gives_zero_loss_and_gradients():
    hidden, weight = layer(4, 8, 20, torch.float32)
    loss = linear_cross_entropy(hidden, weight, torch.full((4,), -100))
    loss.backward()
    assert loss.item() == 0
    assert not hidden.grad.any() and not weight.grad.any()


@pytest.mark.parametrize("label", [-1, 20, 2**40])
def test_a_label_outside_the_vocabulary_is_named(label: int):
    hidden, weight = layer(4, 8, 20, torch.float32)
    labels = torch.tensor([1, 2, label, 3])
    with pytest.raises(IndexError, match=rf"\[0, 20\).*got {label} at token 2"):
        linear_cross_entropy(hidden, weight, labels)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h, w, y: (h, w[:, :3], y), "hidden must be .* and weight"),
        (lambda h, w, y: (h, w.double(), y), "weight must have the dtype of hidden"),
        (lambda h, w, y: (h, w, y[:2]), "labels must be int64 of shape \\[4\\]"),
        (lambda h, w, y: (h, w, y.int()), "labels must be int64"),
    ],
)
def test_wrong_shapes_are_refused(change, message: str):
    hidden, weight = layer(4, 8, 20, torch.float32)
    with pytest.raises(ValueError, match=message):
        linear_cross_entropy(*change(hidden, weight, torch.zeros(4, dtype=torch.long)))


def test_unknown_reduction_is_refused():
    hidden, weight = layer(4, 8, 20, torch.float32)
    with pytest.raises(ValueError, match="reduction must be 'mean' or 'sum', got 'none'"):
        linear_cross_entropy(hidden, weight, torch.zeros(4, dtype=torch.long), reduction="none")


def test_backward_twice_gives_the_same_gradients():
    hidden, weight = layer(4, 8, 20, torch.float32)
    loss = 3 * linear_cross_entropy(hidden, weight, torch.arange(4), reduction="sum")
    first = torch.autograd.grad(loss, (hidden, weight), retain_graph=True)
    kept = [gradient.clone() for gradient in first]
    for gradient in first:
        gradient.zero_()  # what a caller does to its gradients must not reach the graph
    second = torch.autograd.grad(loss, (hidden, weight))
    for got, want in zip(second, kept, strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("frozen", ["hidden", "weight"])
def test_only_asked_gradients(frozen: str):
    hidden, weight = layer(5, 8, 20, torch.float64)
    (hidden if frozen == "hidden" else weight).requires_grad_(False)
    leaf = weight if frozen == "hidden" else hidden
    labels = torch.arange(5)
    (got,) = torch.autograd.grad(
        linear_cross_entropy(hidden, weight, labels, reduction="sum"), leaf
    )
    (want,) = torch.autograd.grad(naive(hidden, weight, labels), leaf)
    torch.testing.assert_close(got, want)


class LargestResult(TorchDispatchMode):
    """Remembers the number of elements of the largest result of any operator."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple) else (result,):
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.numel())
        return result


def test_without_gradients_nothing_as_large_as_the_weight_is_returned():
    hidden, weight = layer(4, 8, 20, torch.float32)
    with torch.no_grad(), LargestResult() as seen:
        linear_cross_entropy(hidden, weight, torch.arange(4))
    assert seen.elements < weight.numel()
