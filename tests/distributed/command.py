"""Runs the command ``mindspeed`` as a user does."""

import subprocess
import sys
from pathlib import Path


def mindspeed(*arguments: str | Path, limit_s: float = 120) -> subprocess.CompletedProcess[str]:
    """Run it and wait for its end."""
    command = [sys.executable, "-m", "mindspeed_llm", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=limit_s)


def assert_one_clear_line(result: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit code 1 and nothing on stderr but one ``mindspeed: error:`` line with ``words`` in it."""
    lines = result.stderr.splitlines()
    assert result.returncode == 1, result.stderr + result.stdout
    assert len(lines) == 1 and lines[0].startswith("mindspeed: error: "), result.stderr
    for word in words:
        assert word in lines[0], lines[0]
