"""Padded layers compute what the layers compute that they were made from, and their padding stays out of sight."""

import copy
import itertools

import pytest
import torch
from torch import Tensor, nn

from mindspeed_core.alignment import (
    GOOD_MULTIPLES,
    AlignedLinear,
    AlignedVocabulary,
    aligned_size,
    good_multiple,
    pad_parts,
    strip_parts,
)
from mindspeed_core.op_cases import random
from mindspeed_core.ops import gated_activation, rotary_embedding
from mindspeed_core.ops.flash_attention import flash_attention
from mindspeed_core.ops.linear_cross_entropy import linear_cross_entropy

EXACT = {"rtol": 1e-12, "atol": 1e-12}  # float64: sums of a few dozen terms in another order


@pytest.fixture(autouse=True)
def float64_modules():
    torch.manual_seed(3)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def gradients(module: nn.Module) -> dict[str, Tensor]:
    """Gradients as a state dict shows parameters."""
    shown = copy.deepcopy(module)
    for parameter, original in zip(shown.parameters(), module.parameters(), strict=True):
        parameter.data = original.grad
    return shown.state_dict()


def assert_same_step(aligned: nn.Module, plain: nn.Module, x: Tensor) -> None:
    """Equal results, gradients and AdamW steps; zeros in the padding, and nothing of it in the state dict."""
    results = []
    for module in (aligned, plain):
        leaf = x.clone().requires_grad_()
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.01, weight_decay=0.1)
        out = module(leaf)
        out.square().sum().backward()
        grads = gradients(module)
        optimizer.step()
        results.append((out.detach(), leaf.grad, grads, module.state_dict()))
    torch.testing.assert_close(*results, **EXACT)
    for padded in aligned.modules():
        for name in getattr(padded, "_parts", {}):
            parameter = padded.get_parameter(name)
            true = padded._pad(name, padded._strip(name, parameter))
            assert torch.equal(true, parameter), name
            assert torch.equal(
                padded._pad(name, padded._strip(name, parameter.grad)), parameter.grad
            )


@pytest.mark.parametrize(
    ("inputs", "outputs", "bias"), list(itertools.product((5, 16), (3, 32), (True, False)))
)
def test_linear(inputs: int, outputs: int, bias: bool):
    plain = nn.Linear(inputs, outputs, bias=bias)
    aligned = AlignedLinear(plain, multiple=16)
    assert aligned.weight.shape == (aligned_size(outputs, 16), 16)
    assert_same_step(aligned, plain, random(4, 3, inputs, dtype=torch.float64, grad=False))


class FeedForward(nn.Module):
    """A gated feed-forward block of any two linear layers."""

    def __init__(self, gate_up: nn.Module, down: nn.Module):
        super().__init__()
        self.gate_up, self.down = gate_up, down

    def forward(self, x: Tensor) -> Tensor:
        return self.down(gated_activation(self.gate_up(x)))


def test_feed_forward_size():
    plain = FeedForward(nn.Linear(8, 2 * 11), nn.Linear(11, 8))
    aligned = FeedForward(
        AlignedLinear(plain.gate_up, multiple=16, out_parts=2, keep_padding=True),
        AlignedLinear(plain.down, multiple=16),
    )
    assert aligned.gate_up(torch.zeros(1, 8)).shape == (1, 32)
    assert_same_step(aligned, plain, random(5, 8, dtype=torch.float64, grad=False))


class Attention(nn.Module):
    """Self-attention with 3 heads of 6, whatever the padding of the projections."""

    def __init__(self, projections: list[nn.Module], output: nn.Module):
        super().__init__()
        self.projections, self.output = nn.ModuleList(projections), output

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (projection(x).unflatten(-1, (3, -1)) for projection in self.projections)
        angles = torch.arange(float(x.shape[1]))[:, None] / torch.arange(1.0, 4.0)
        q, k = (rotary_embedding(part, angles.cos(), angles.sin()) for part in (q, k))
        return self.output(flash_attention(q, k, v, causal=True, scale=6**-0.5).flatten(-2))


def test_head_size():
    plain = Attention([nn.Linear(10, 18) for _ in range(3)], nn.Linear(18, 10))
    aligned = Attention(
        [AlignedLinear(p, 8, out_parts=3, keep_padding=True) for p in plain.projections],
        AlignedLinear(plain.output, 8, in_parts=3),
    )
    assert aligned.projections[0].weight.shape == (24, 16)
    assert_same_step(aligned, plain, random(2, 5, 10, dtype=torch.float64, grad=False))


class Vocabulary(nn.Module):
    """A language model of one table."""

    def __init__(self, table: nn.Module):
        super().__init__()
        self.table = table

    def forward(self, x: Tensor) -> Tensor:
        ids = torch.tensor([[1, 20, 0], [20, 5, 7]])
        hidden = self.table(ids).tanh() + x
        if isinstance(self.table, AlignedVocabulary):
            return torch.stack(
                [self.table.loss(hidden, ids), self.table.logits(hidden).logsumexp(-1).sum()]
            )
        weight = self.table.weight
        loss = linear_cross_entropy(hidden, weight, ids)
        return torch.stack([loss, (hidden @ weight.t()).logsumexp(-1).sum()])


def test_vocabulary():
    plain = Vocabulary(nn.Embedding(21, 6))
    aligned = Vocabulary(AlignedVocabulary(plain.table, multiple=16))
    assert aligned.table.weight.shape == (32, 6)
    assert_same_step(aligned, plain, random(6, dtype=torch.float64, grad=False))


def test_a_token_of_the_padding_is_refused():
    table = AlignedVocabulary(nn.Embedding(21, 16), multiple=16)
    with pytest.raises(IndexError):
        table(torch.tensor([21]))


def test_a_state_dict_goes_both_ways():
    plain = nn.Linear(5, 3)
    other = nn.Linear(5, 3)
    aligned = AlignedLinear(other, multiple=16)
    aligned.load_state_dict(plain.state_dict())
    assert torch.equal(aligned.weight[:3, :5], plain.weight)
    assert aligned.weight.count_nonzero() == plain.weight.count_nonzero()
    other.load_state_dict(aligned.state_dict())
    assert torch.equal(other.weight, plain.weight)
    assert torch.equal(other.bias, plain.bias)
    padded = {"weight": aligned.weight.detach(), "bias": aligned.bias.detach()}
    with pytest.raises(RuntimeError, match=r"weight must have its shape without padding \[3, 5\]"):
        aligned.load_state_dict(padded)


def test_the_multiple_of_this_cpu_is_the_default():
    aligned = AlignedLinear(nn.Linear(5, 3))
    multiple = GOOD_MULTIPLES[torch.ops.mindspeed.isa_name()][torch.float64]
    assert aligned.weight.shape == (aligned_size(3, multiple), aligned_size(5, multiple))


@pytest.mark.parametrize("parts", [1, 3])
def test_stripping_undoes_padding(parts: int):
    x = random(2, 9, 4, dtype=torch.float64, grad=False)
    padded = pad_parts(x, 1, parts, 8)
    assert padded.shape == (2, parts * aligned_size(9 // parts, 8), 4)
    assert padded.count_nonzero() == x.count_nonzero()
    assert torch.equal(strip_parts(padded, -2, parts, 9 // parts), x)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="device must be cpu, cuda or npu, got meta"):
        good_multiple("meta", torch.float32)
    with pytest.raises(ValueError, match=r"dtype must be one of .* on cuda, got torch.float64"):
        good_multiple("cuda", torch.float64)
    with pytest.raises(ValueError, match="multiple must be at least 1, got 0"):
        aligned_size(3, 0)
    with pytest.raises(ValueError, match=r"parts must divide the dim's size \(5\), got 2"):
        pad_parts(torch.zeros(5), 0, 2, 8)
    with pytest.raises(ValueError, match="last dim of 5, or 16 with padding, got 7"):
        AlignedLinear(nn.Linear(5, 3), multiple=16)(torch.zeros(2, 7))
