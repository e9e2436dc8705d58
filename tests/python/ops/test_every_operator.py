"""Every operator of torch.ops.mindspeed has all its parts; a missing one is named here."""

from pathlib import Path

import torch

import mindspeed_core  # noqa: F401
from mindspeed_core.op_cases import operator_cases, operator_names

ROOT = Path(__file__).resolve().parents[3]
NOT_ABOUT_TENSORS = {"isa_name"}
SHARED = {"activation", "optimizer"}  # folders of what several operators share


def registered() -> set[str]:
    names = torch._C._dispatch_get_all_op_names()
    ours = {name.removeprefix("mindspeed::") for name in names if name.startswith("mindspeed::")}
    return ours - NOT_ABOUT_TENSORS


def has_kernel(name: str, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"mindspeed::{name}", key)


def test_operators_are_registered():
    assert {"rms_norm", "swiglu", "adamw_"} <= registered()


def test_each_is_covered_by_cases():
    covered = {operator for name in operator_names() for operator in operator_cases(name).covers}
    assert covered == registered()


def test_each_has_a_fake_or_is_made_of_operators_that_have_one():
    for name in registered():
        fused_forward = f"{name}_forward"
        assert has_kernel(name, "Meta") or has_kernel(fused_forward, "Meta"), name


def test_each_has_a_cpu_kernel_and_a_reference():
    for name in registered():
        kernel = name if has_kernel(name, "CPU") else f"{name}_forward"
        assert has_kernel(kernel, "CPU"), name
        assert has_kernel(name, "CompositeExplicitAutograd"), name


def test_each_says_what_autograd_does():
    for name in registered():
        assert has_kernel(name, "Autograd"), name


def test_each_has_a_bench_row():
    assert not [name for name in operator_names() if not operator_cases(name).bench]


def test_each_has_its_folder():
    folders = {path.parent.name for path in (ROOT / "src" / "ops").glob("*/*.h")} - SHARED
    assert folders == set(operator_names())
