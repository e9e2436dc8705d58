"""Guards of the layout: includes point down the list of rooms, torch-free code is torch-free, names are plain."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"

# room: the rooms it may include (beside itself)
ALLOWED = {
    "simd": set(),
    "ops": {"simd"},
    "memory": set(),
    "parallel": {"ops", "memory"},
    "models": {"ops", "memory", "parallel"},
    "train": {"ops", "memory", "parallel", "models"},
    "data": set(),
    "bindings": {"ops", "simd", "memory", "parallel", "models", "train", "data"},
}
FORBIDDEN_NAMES = re.compile(r"^(utils?|helpers?|common|misc|manager|base|new|v2)$")
TORCH_HEADER = re.compile(r'#include\s+[<"](torch|ATen|c10)/')


def tracked(*patterns: str) -> list[Path]:
    output = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [ROOT / line for line in output.splitlines() if (ROOT / line).is_file()]


def test_every_room_is_listed():
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    assert rooms == set(ALLOWED)


@pytest.mark.parametrize("room", ALLOWED)
def test_includes_point_down(room: str):
    wrong = []
    for path in tracked(f"src/{room}/*.h", f"src/{room}/*.cpp"):
        for included in re.findall(r'#include\s+"([a-z_]+)/', path.read_text()):
            if included != room and included in ALLOWED and included not in ALLOWED[room]:
                wrong.append(f"{path.relative_to(ROOT)} includes {included}/")
    assert not wrong


def test_torch_free_code_includes_no_torch():
    files = tracked("src/data/*", "src/simd/*", "src/ops/*/kernel.h", "src/ops/*/cpu_kernel*.cpp")
    assert files
    assert not [path for path in files if TORCH_HEADER.search(path.read_text())]


def test_no_file_has_a_name_that_says_nothing():
    files = tracked("src/*", "python/*", "tests/*", "scripts/*", "cmake/*")
    assert not [path for path in files if FORBIDDEN_NAMES.match(path.stem)]


def test_every_source_says_its_licence_and_purpose():
    missing = [
        str(path.relative_to(ROOT))
        for path in tracked("src/*.h", "src/*.cpp")
        if path.name != "torch_headers.cpp"
        and not path.read_text().startswith("// SPDX-License-Identifier: Apache-2.0\n")
    ]
    assert not missing


def test_no_unfinished_work_is_marked_in_the_code():
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    files = tracked("src/*", "python/*", "examples/*")
    wrong = [p for p in files if p.suffix in {".h", ".cpp", ".py"} and marks.search(p.read_text())]
    assert not wrong
