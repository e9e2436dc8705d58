"""The plan's list of fused kernels."""

import typing

import pytest
import torch

import mindspeed_core  # noqa: F401  (registers the operators)
from mindspeed_llm.config import TrainingConfig
from mindspeed_llm.kernels import OPTIMIZER_OPS, fused_kernels, has_kernel


@pytest.mark.parametrize("optimizer", OPTIMIZER_OPS)
def test_only_the_optimizer_in_use_is_listed(optimizer):
    assert listed_updates(OPTIMIZER_OPS[optimizer]) == OPTIMIZER_OPS[optimizer]


def test_a_script_with_its_own_optimizer_has_none_listed():
    assert listed_updates(()) == ()


def test_every_configured_optimizer_has_its_operators():
    names = typing.get_args(typing.get_type_hints(TrainingConfig)["optimizer"])
    assert set(names) == set(OPTIMIZER_OPS)
    assert all(has_kernel(op, "CPU") for ops in OPTIMIZER_OPS.values() for op in ops)


def listed_updates(optimizer_ops):
    """The listed operators that update weights in place."""
    (phrase,) = fused_kernels(torch.device("cpu"), optimizer_ops)
    return tuple(op for op in phrase.split(": ")[1].split(", ") if op.endswith("_"))
