"""What the shared cases cannot say of linear_cross_entropy and its form a token: reductions, counts, errors, memory,
repeated backward, and settings drawn at random."""

from collections.abc import Callable

import pytest
import torch
from measure import assert_as_exact_as_naive
from torch.utils._python_dispatch import TorchDispatchMode

from mindspeed_core import _C
from mindspeed_core.op_cases import linear_cross_entropy_tokens, random
from mindspeed_core.op_cases.linear_cross_entropy import layer, naive, token_losses
from mindspeed_core.ops import (
    label_log_probabilities,
    linear_cross_entropy,
    linear_cross_entropy_and_counts,
)


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
    with pytest.raises(ValueError, match="reduction must be 'mean', 'sum' or 'none', got 'max'"):
        linear_cross_entropy(hidden, weight, torch.zeros(4, dtype=torch.long), reduction="max")


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


def test_no_reduction_gives_a_loss_a_token_in_the_shape_of_the_labels():
    hidden, weight = layer(6, 8, 20, torch.float32)
    labels = torch.tensor([[3, -100, 5], [1, 2, 19]])
    losses = linear_cross_entropy(hidden.view(2, 3, 8), weight, labels, reduction="none")
    assert losses.shape == labels.shape and losses[0, 1] == 0
    total = linear_cross_entropy(hidden.view(2, 3, 8), weight, labels, reduction="sum")
    torch.testing.assert_close(losses.sum(), total)


def test_weighted_tokens_have_the_gradients_of_the_whole_softmax():
    hidden, weight = layer(5, 8, 20, torch.float64)
    labels, share = torch.tensor([1, -100, 3, 19, 0]), torch.rand(5, dtype=torch.float64)
    loss = (linear_cross_entropy(hidden, weight, labels, reduction="none") * share).sum()
    got = torch.autograd.grad(loss, (hidden, weight))
    want = torch.autograd.grad(
        (token_losses(hidden, weight, labels) * share).sum(), (hidden, weight)
    )
    for ours, theirs in zip(got, want, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_log_probabilities_are_those_of_log_softmax():
    hidden, weight = layer(6, 8, 20, torch.float64)
    labels = torch.tensor([[3, -100, 5], [1, 2, 19]])
    logits = 4 * ((hidden @ weight.t()) / 4).tanh()
    want = logits.log_softmax(-1).gather(1, labels.view(-1, 1).clamp(min=0)).view(2, 3)
    got = label_log_probabilities(hidden.view(2, 3, 8), weight, labels, softcap=4.0)
    torch.testing.assert_close(got, want * (labels >= 0))
    upstream = torch.rand(2, 3, dtype=torch.float64)
    for ours, theirs in zip(
        torch.autograd.grad((got * upstream).sum(), (hidden, weight)),
        torch.autograd.grad((want * (labels >= 0) * upstream).sum(), (hidden, weight)),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_correct_tokens_are_counted(dtype: torch.dtype):
    hidden, weight = torch.eye(4, dtype=dtype), torch.eye(4, dtype=dtype)
    labels = torch.tensor([0, 1, 0, -100])  # the last would be correct, but is ignored
    result = linear_cross_entropy_and_counts(hidden, weight, labels)
    assert (result.num_valid.item(), result.num_correct.item()) == (3, 2)
    _, _, correct = torch.ops.mindspeed.linear_cross_entropy_tokens(hidden, weight, labels)
    assert correct.tolist() == [True, True, False, False]
    tied = torch.zeros(1, 4, dtype=dtype)
    assert linear_cross_entropy_and_counts(tied, weight, torch.tensor([2])).num_correct.item() == 1


def peak_of(run: Callable[[], object]) -> int:
    """Bytes of the large buffers that lived at once."""
    _C.pool_enable()
    try:
        _C.pool_reset_peak()
        before = _C.pool_statistics()["in_use_bytes"]
        run()
        return _C.pool_statistics()["peak_in_use_bytes"] - before
    finally:
        _C.pool_disable()


@pytest.mark.parametrize("reduction", ["sum", "none"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_memory_is_at_most_a_quarter_of_that_with_all_logits(dtype: torch.dtype, reduction: str):
    hidden, weight = layer(1024, 16, 16_000, dtype)
    labels = torch.arange(1024)
    leaves = (hidden, weight)

    def fused() -> None:
        loss = linear_cross_entropy(hidden, weight, labels, reduction=reduction)
        torch.autograd.grad(loss.sum(), leaves)

    eager = peak_of(lambda: torch.autograd.grad(naive(hidden, weight, labels), leaves))
    assert eager >= 1024 * 16_000 * 4
    assert peak_of(fused) <= eager / 4


@pytest.mark.parametrize("seed", range(40))
def test_settings_and_shapes_drawn_at_random(seed: int):
    generator = torch.Generator().manual_seed(seed)

    def draw(*options: float) -> float:
        return options[int(torch.randint(len(options), (), generator=generator))]

    tokens, size, vocabulary = int(draw(1, 2, 7, 33)), int(draw(1, 5, 32)), int(draw(1, 2, 31, 500))
    dtype = (torch.float32, torch.bfloat16, torch.float16)[seed % 3]
    scale = draw(0.1, 1.0, 4.0)
    hidden = random(tokens, size, dtype=dtype, scale=scale)
    weight = random(vocabulary, size, dtype=dtype)
    ignore_index = int(draw(-100, 0, vocabulary))
    labels = torch.randint(vocabulary, (tokens,), generator=generator)
    labels[torch.rand(tokens, generator=generator) < draw(0, 0.3, 1)] = ignore_index
    settings = ignore_index, draw(0, 1e-3), draw(0, 0.1, 1), draw(0, 1, 30)
    inputs = hidden, weight, labels, *settings
    summed = torch.ops.mindspeed.linear_cross_entropy
    assert_as_exact_as_naive(lambda *values: summed(*values)[0], naive, inputs)
    cases = linear_cross_entropy_tokens.CASES
    assert_as_exact_as_naive(cases.operator, cases.naive, inputs)
