"""The kernels of every instruction set that this machine has, and MINDSPEED_ISA."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import mindspeed_core  # noqa: F401

HERE = Path(__file__).parent
NAMES = ["baseline", "avx2", "avx512"]


def run(isa: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "MINDSPEED_ISA": isa},
        capture_output=True,
        text=True,
        timeout=240,
    )


@functools.cache
def best_isa() -> str:
    code = "import torch, mindspeed_core; print(torch.ops.mindspeed.isa_name())"
    return run("", "-c", code).stdout.strip()


def test_the_name_is_one_of_the_documented():
    assert torch.ops.mindspeed.isa_name() in NAMES


def test_kernels_of_every_lower_instruction_set():
    in_use = torch.ops.mindspeed.isa_name()
    assert "MINDSPEED_ISA" in os.environ or in_use == best_isa()
    for isa in NAMES[: NAMES.index(in_use)]:
        result = run(isa, "-m", "pytest", "-q", "-x", str(HERE / "test_numerics.py"))
        assert result.returncode == 0, f"{isa}:\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"


@pytest.mark.parametrize("isa", NAMES)
def test_a_named_instruction_set_is_used_or_refused(isa: str):
    code = (
        "import torch, mindspeed_core\n"
        "w = torch.ones(8)\n"
        "torch.ops.mindspeed.rms_norm(w, w)\n"
        "print(torch.ops.mindspeed.isa_name())"
    )
    result = run(isa, "-c", code)
    if NAMES.index(isa) <= NAMES.index(best_isa()):
        assert result.stdout.strip() == isa
    else:
        assert result.returncode != 0
        assert f"must be supported by this CPU, got '{isa}' but the best here is" in result.stderr


def test_an_unknown_name_is_refused_with_the_valid_ones():
    code = "import torch, mindspeed_core; w = torch.ones(8); torch.ops.mindspeed.rms_norm(w, w)"
    result = run("sse9", "-c", code)
    assert result.returncode != 0
    assert "MINDSPEED_ISA: must be one of baseline, avx2, avx512, got 'sse9'" in result.stderr
