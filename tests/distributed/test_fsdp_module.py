"""FSDPModule over 1, 2 and 3 processes trains like the plain module in one process."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from launch import run
from mindspeed_llm.parallel import FSDPModule

JOB = Path(__file__).parent / "jobs" / "fsdp_training.py"


def train(
    folder: Path,
    processes: int,
    name: str,
    strategy: str,
    precision: str,
    accumulation: int,
    wrap: bool,
) -> dict[str, Any]:
    output = folder / f"{processes}_{name}_{strategy}_{precision}_{accumulation}_{wrap}.pt"
    arguments = [str(output), name, strategy, precision, str(accumulation), str(int(wrap))]
    run(processes, JOB, *arguments)
    return torch.load(output)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("plain")
    return {name: train(folder, 1, name, "full", "fp32", 1, False) for name in ("mlp", "llama")}


@pytest.mark.parametrize(
    ("processes", "name", "strategy", "accumulation"),
    [
        (1, "mlp", "full", 1),
        (2, "mlp", "full", 2),
        (3, "mlp", "full", 1),
        (3, "mlp", "grad", 2),
        (3, "mlp", "none", 2),
        (2, "llama", "full", 1),
        (2, "llama", "grad", 3),
    ],
)
def test_trains_like_the_plain_module(
    plain: dict[str, Any],
    tmp_path: Path,
    processes: int,
    name: str,
    strategy: str,
    accumulation: int,
):
    result = train(tmp_path, processes, name, strategy, "fp32", accumulation, True)
    expected = plain[name]
    assert result["losses"] == pytest.approx(expected["losses"], rel=1e-5)
    assert result["evaluation"] == pytest.approx(expected["evaluation"], rel=1e-5)
    assert set(result["state"]) == set(expected["state"])
    for key, value in expected["state"].items():
        assert torch.allclose(result["state"][key], value, rtol=1e-4, atol=1e-5), key
    if processes > 1 and strategy != "none":
        assert result["numel"] < expected["numel"] * 0.75


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_stays_near_float32(plain: dict[str, Any], tmp_path: Path, precision: str):
    result = train(tmp_path, 2, "mlp", "full", precision, 1, True)
    epsilon = torch.finfo({"bf16": torch.bfloat16, "fp16": torch.float16}[precision]).eps
    assert result["losses"] == pytest.approx(plain["mlp"]["losses"], rel=8 * epsilon)
    assert all(value.dtype == torch.float32 for value in result["state"].values())


def test_without_a_process_group_it_is_one_process():
    model = FSDPModule(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 4)
    first = model(x).square().mean()
    first.backward()
    optimizer.step()
    assert model(x).square().mean() < first


def test_the_printed_call_works():
    model = FSDPModule(nn.Linear(4, 2), shard_strategy="full", mixed_precision="fp16")
    model(torch.randn(3, 4)).sum().backward()
    assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"shard_strategy": "zero9"},
            "shard_strategy must be one of full, grad, none, got 'zero9'",
        ),
        (
            {"mixed_precision": "int3"},
            "mixed_precision must be one of fp32, bf16, fp16, got 'int3'",
        ),
    ],
)
def test_unknown_names_are_refused(arguments: dict[str, str], message: str):
    with pytest.raises(ValueError, match=message):
        FSDPModule(nn.Linear(2, 2), **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": torch.zeros(1, 2)}, r"weight must have shape \[3, 2\], got \[1, 2\]"),
        ({"wait": torch.zeros(3, 2)}, r"must have the module's names; differs in wait"),
    ],
)
def test_another_modules_state_is_refused(change: dict[str, torch.Tensor], message: str):
    model = FSDPModule(nn.Linear(2, 3))
    before = model.state_dict()
    with pytest.raises(ValueError, match=message):
        model.load_state_dict(before | change)
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_state_can_be_taken_and_set_between_forward_and_backward():
    model = FSDPModule(nn.Linear(2, 3))
    loss = model(torch.ones(4, 2)).sum()
    state = model.state_dict()
    assert model.load_state_dict(state).missing_keys == []
    loss.backward()
    assert torch.equal(model.module.weight.grad, torch.full((3, 2), 4.0))


def test_a_half_precision_module_is_refused():
    with pytest.raises(ValueError, match=r"weight: FSDPModule takes float32 parameters"):
        FSDPModule(nn.Linear(2, 2).half())
