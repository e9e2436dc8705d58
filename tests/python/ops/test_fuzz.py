"""CPU kernels against the reference on seeded random shapes, strides, dtypes and settings."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from measure import outputs_and_gradients, to_float64
from test_reference import References
from torch import Tensor

from mindspeed_core import ops

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
ROUNDS = 40


class Draw:
    """Random inputs; the same for the same seed."""

    def __init__(self, seed: int):
        self.choose = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype = self.choose.choice(DTYPES)

    def leading(self, most: int = 3) -> list[int]:
        return [self.choose.randint(1, 6) for _ in range(self.choose.randint(0, most))]

    def size(self) -> int:
        return self.choose.choice((1, 2, 3, 7, 8, 15, 16, 17, 31, 40, 64, 100, 129))

    def tensor(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """A leaf of this shape, with gaps, transposed or reversed dims in memory now and then."""
        order = list(range(len(shape)))
        if self.choose.random() < 0.3:
            self.choose.shuffle(order)
        widened = [shape[dim] + self.choose.choice((0, 0, 0, 1, 5)) for dim in order]
        scale = self.choose.choice((0.1, 1.0, 10.0))
        memory = (scale * torch.randn(widened, generator=self.generator)).to(dtype or self.dtype)
        view = memory.permute([order.index(dim) for dim in range(len(shape))])
        for dim, size in enumerate(shape):
            view = view.narrow(dim, self.choose.randint(0, view.shape[dim] - size), size)
        return view.requires_grad_()


def norm(
    function: Callable[..., Any],
) -> Callable[[Draw], tuple[Callable[..., Any], tuple[Any, ...]]]:
    def make(draw: Draw) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        shape = [*draw.leading(), draw.size()]
        activations = [draw.tensor(*shape)]
        if function is ops.add_rms_norm:
            activations.append(draw.tensor(*shape))
        affine = [draw.tensor(shape[-1])]
        if function is ops.layer_norm:
            affine.append(draw.choose.choice((None, draw.tensor(shape[-1]))))
        return function, (*activations, *affine, draw.choose.choice((1e-6, 1e-3)))

    return make


def rotary(draw: Draw) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    tokens = [draw.choose.randint(1, 5) for _ in range(draw.choose.choice((1, 2)))]
    size = draw.size()
    pairs = draw.choose.randint(0, size // 2)
    rows = tokens[-1] + draw.choose.randint(0, 4)
    angles = 10 * torch.rand(rows, pairs, generator=draw.generator)
    positions = draw.choose.choice(
        (None, torch.randint(rows, tokens, generator=draw.generator, dtype=torch.int32))
    )
    x = draw.tensor(*tokens, draw.choose.randint(1, 4), size)
    return ops.rotary_embedding, (
        x,
        angles.cos(),
        angles.sin(),
        positions,
        draw.choose.random() < 0.5,
    )


def gated(draw: Draw) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    shape = [*draw.leading(), draw.size()]
    kind = draw.choose.choice(("two", "packed", "ungated"))
    if kind == "two":
        function = draw.choose.choice((ops.swiglu, ops.geglu))
        form = () if function is ops.swiglu else (draw.choose.choice(("tanh", "none")),)
        return function, (draw.tensor(*shape), draw.tensor(*shape), *form)
    shape[-1] *= 2 if kind == "packed" else 1
    bias = draw.choose.choice((None, draw.tensor(shape[-1])))
    if kind == "packed":
        name = draw.choose.choice(("silu", "gelu", "gelu_tanh"))
        return ops.gated_activation, (draw.tensor(*shape), bias, name)
    return ops.bias_gelu, (draw.tensor(*shape), bias, draw.choose.choice(("tanh", "none")))


def softmax(draw: Draw) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    shape = [*draw.leading(2), draw.choose.randint(1, 9), draw.size()]
    masked = [draw.choose.choice((1, size)) for size in shape][draw.choose.randint(0, len(shape)) :]
    mask = torch.rand(masked, generator=draw.generator) < draw.choose.choice((0.0, 0.3, 0.9))
    settings = (draw.choose.choice((None, mask)), draw.choose.choice((0.125, 1.0)))
    return ops.scaled_masked_softmax, (draw.tensor(*shape), *settings, draw.choose.random() < 0.5)


def dropout(draw: Draw) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    shape = [*draw.leading(), draw.size()]
    bias = draw.choose.choice((None, draw.tensor(shape[-1])))
    p = draw.choose.choice((0.0, 0.1, 0.9))
    inputs = (draw.tensor(*shape), bias, draw.tensor(*shape), p, draw.choose.getrandbits(63))
    return torch.ops.mindspeed.bias_dropout_add, inputs


FAMILIES = {
    "rms_norm": norm(ops.rms_norm),
    "add_rms_norm": norm(ops.add_rms_norm),
    "layer_norm": norm(ops.layer_norm),
    "rotary": rotary,
    "gated": gated,
    "softmax": softmax,
    "dropout": dropout,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_agree_with_the_reference(family: str):
    for seed in range(ROUNDS):
        draw = Draw(seed)
        function, inputs = FAMILIES[family](draw)
        ours = outputs_and_gradients(function, inputs)
        with References():
            reference = outputs_and_gradients(function, inputs)
        exact = outputs_and_gradients(function, to_float64(inputs))
        largest = max((truth.abs().max().item() for truth in exact if truth.numel()), default=0.0)
        for place, (got, plain, truth) in enumerate(zip(ours, reference, exact, strict=True)):
            if got.numel() == 0:
                continue
            error = (got.double() - truth).abs().max().item()
            bound = 2 * (plain.double() - truth).abs().max().item()
            bound += torch.finfo(got.dtype).eps * largest
            shapes = [tuple(x.shape) if isinstance(x, Tensor) else x for x in inputs]
            assert error <= bound, f"seed {seed}, result {place}, {draw.dtype}, inputs {shapes}"
