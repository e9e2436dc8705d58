"""A stranger's CMake project finds the installed engine, builds, and its model learns."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "cpp_train"


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_cpp_example_builds_against_the_installed_package_and_learns(tmp_path: Path):
    folder = run(sys.executable, "-m", "mindspeed_core", "--cmake-dir", cwd=tmp_path).strip()
    shutil.copytree(EXAMPLE, tmp_path / "project")
    run(
        "cmake",
        "-S",
        "project",
        "-B",
        "build",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DMindSpeed_DIR={folder}",
        cwd=tmp_path,
    )
    run("cmake", "--build", "build", cwd=tmp_path)
    text = tmp_path / "text"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 200)
    output = run("build/cpp_train", str(text), cwd=tmp_path)
    losses = [float(value) for value in re.findall(r"loss ([0-9.]+)", output)]
    assert len(losses) == 6
    assert losses[-1] < 0.5 * losses[0]
