"""Benchmark rows as CSV: each line carries what it was measured on, so that files of any machine can be joined."""

import csv
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch


def cpu_name() -> str:
    """The processor as the system names it."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """The commit of the checkout that this package runs from, "unknown" outside one."""
    here = Path(__file__).resolve().parent
    command = ["git", "-C", str(here), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"


def conditions(threads: int) -> dict[str, Any]:
    """Date, commit, machine and versions of a measurement."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": cpu_name(),
        "isa": torch.ops.mindspeed.isa_name(),
        "threads": threads,
        "torch": torch.__version__,
    }


def write_csv(path: Path, measured_on: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """One line a row, ``measured_on`` first in each; a value that a row lacks stays empty."""
    lines = [{**measured_on, **row} for row in rows]
    columns = list(dict.fromkeys(column for line in lines for column in line))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
