"""1, 2 and 3 processes with uneven numbers of valid tokens, one rank with none: the same loss and gradients."""

from pathlib import Path
from typing import Any

import pytest
import torch

from launch import run

JOB = Path(__file__).parent / "jobs" / "normalisation_step.py"


def step(
    processes: int, accumulation: int, fsdp: bool, recompute: str, folder: Path
) -> dict[str, Any]:
    output = folder / f"step_{processes}_{accumulation}_{fsdp}.pt"
    run(processes, JOB, str(output), str(accumulation), str(int(fsdp)), recompute)
    return torch.load(output)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return step(1, 1, False, "none", tmp_path_factory.mktemp("alone"))


@pytest.mark.parametrize(
    ("processes", "accumulation", "fsdp", "recompute"),
    [
        (1, 4, False, "none"),
        (2, 1, False, "none"),
        (2, 3, False, "full"),
        (3, 1, False, "none"),
        (3, 2, False, "selective"),
        (2, 1, True, "none"),
        (2, 2, True, "full"),
        (3, 2, True, "selective"),
    ],
)
def test_layout_does_not_change_the_step(
    alone: dict[str, Any],
    tmp_path: Path,
    processes: int,
    accumulation: int,
    fsdp: bool,
    recompute: str,
):
    result = step(processes, accumulation, fsdp, recompute, tmp_path)
    assert result["valid"] == alone["valid"]
    assert result["loss"] == pytest.approx(alone["loss"], rel=1e-6)
    assert result["norm"] == pytest.approx(alone["norm"], rel=1e-6)
    assert set(result["gradients"]) == set(alone["gradients"])
    for name, expected in alone["gradients"].items():
        error = (result["gradients"][name] - expected).norm() / expected.norm()
        assert error < 1e-6, f"{name}: {error:.2e}"
