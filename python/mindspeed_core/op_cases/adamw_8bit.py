"""The AdamW step with moments in 8 bits."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from mindspeed_core.op_cases import OperatorCases, adamw
from mindspeed_core.op_cases.adamw import SETTINGS, SHAPES, Tensors, cases_of

BLOCK = 256


@cache
def dynamic_map(signed: bool) -> Tensor:
    """The 256 values by code, float64, as bitsandbytes' create_dynamic_map makes them."""
    values = [0.0, 1.0]
    for decade in range(7):
        bounds = torch.linspace(0.1, 1, 2 ** (decade + (not signed)) + 1, dtype=torch.float64)
        means = (10.0 ** (decade - 6) * (bounds[:-1] + bounds[1:]) / 2).tolist()
        values += [*means, *(-mean for mean in means)] if signed else means
    return torch.tensor(sorted(values), dtype=torch.float64)


def dequantised(codes: Tensor, scales: Tensor, signed: bool) -> Tensor:
    """What codes and scales stand for, in the dtype of the scales."""
    values = dynamic_map(signed).to(torch.float32).to(scales.dtype)[codes.long().flatten()]
    return (values * scales.repeat_interleave(BLOCK)[: codes.numel()]).view(codes.shape)


def largest_of_blocks(moment: Tensor) -> Tensor:
    """The largest magnitude of each block of 256 elements."""
    padded = torch.nn.functional.pad(moment.flatten(), (0, -moment.numel() % BLOCK))
    return padded.view(-1, BLOCK).abs().amax(1) if moment.numel() else moment.new_zeros(0)


def fused(*lists: Tensors) -> tuple[Tensor, ...]:
    """The operator's weights and scales: one code more or less is no error, test_optimizers.py judges codes."""
    copies = [[tensor.clone() for tensor in values] for values in lists]
    torch.ops.mindspeed.adamw_8bit_(*copies, **SETTINGS)
    params, _, _, mean_scales, _, square_scales, masters = copies
    return (*params, *mean_scales, *square_scales, *masters)


def naive(*lists: Tensors) -> tuple[Tensor, ...]:
    """AdamW on the moments that the codes stand for, and the new moments' largest magnitudes."""
    params, grads, means, mean_scales, squares, square_scales, masters = lists
    pairs = zip(means, mean_scales, strict=True), zip(squares, square_scales, strict=True)
    moments = [
        [dequantised(codes, scales, signed) for codes, scales in pair]
        for pair, signed in zip(pairs, (True, False), strict=True)
    ]
    params = [param.clone() for param in params]
    masters = [master.clone() for master in masters]
    adamw.naive_in_place(params, grads, *moments, masters)
    scales = [largest_of_blocks(moment) for values in moments for moment in values]
    return (*params, *scales, *masters)


def lists_of(*shapes: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensors, ...]:
    """Parameters, gradients, codes and scales of both moments and, for 16-bit parameters, masters."""
    params, grads, exp_avgs, exp_avg_sqs, masters = adamw.lists_of(*shapes, dtype=dtype)
    generator = torch.Generator().manual_seed(5)
    codes = [
        [torch.randint(256, p.shape, generator=generator, dtype=torch.uint8) for p in params]
        for _ in range(2)
    ]
    scales = [[largest_of_blocks(m) for m in moments] for moments in (exp_avgs, exp_avg_sqs)]
    return params, grads, codes[0], scales[0], codes[1], scales[1], masters


def fused_in_place(*lists: Tensors) -> None:
    """The operator itself."""
    torch.ops.mindspeed.adamw_8bit_(*lists, **SETTINGS)


def with_float32_moments(step: Callable[..., None]) -> Callable[..., None]:
    """An AdamW step with float32 moments, which is what 8 bits must keep up with."""
    return lambda params, grads, *states: step(params, grads, *adamw.bench_moments(), states[-1])


CASES = OperatorCases(
    operator=fused,
    naive=naive,
    covers=("adamw_8bit_",),
    cases=cases_of(lists_of),
    bench={"8M": lambda dtype: lists_of(*SHAPES, dtype=dtype)},
    differentiable=False,
    in_place=(fused_in_place, with_float32_moments(adamw.naive_in_place)),
    peers={name: with_float32_moments(step) for name, step in adamw.TORCH_STEPS.items()},
)
