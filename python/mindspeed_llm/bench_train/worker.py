"""One contestant in its own process: reads commands as JSON lines, answers as JSON lines.

Commands: ``{"steps": n}`` trains n steps and answers their seconds and losses; ``{"peak": true}`` answers
memory; end of input ends the process.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

from mindspeed_llm.bench_train.contestants import CONTESTANTS


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def gemm_rate(rows: int, inner: int, columns: int, seconds: float = 1.0) -> float:
    """FLOP/s of float32 matrix products of this shape on this process's threads."""
    left, right = torch.randn(rows, inner), torch.randn(inner, columns)
    out = torch.empty(rows, columns)
    torch.mm(left, right, out=out)
    runs, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        torch.mm(left, right, out=out)
        runs += 1
    return 2 * rows * inner * columns * runs / (time.perf_counter() - start)


def serve(job: dict[str, Any]) -> None:
    """Build the contestant of ``job`` and answer commands until the input ends."""
    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    # Answers go to the real stdout; whatever libraries print goes to stderr.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    baseline = _status_bytes("VmRSS")
    shape = job["shape"]
    step = CONTESTANTS[job["contestant"]](shape)
    tokens = torch.randint(0, shape["vocab_size"], (job["batch"], job["sequence"] + 1))
    input_ids, labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    for line in sys.stdin:
        command = json.loads(line)
        if "steps" in command:
            seconds, losses = [], []
            for _ in range(command["steps"]):
                start = time.perf_counter()
                losses.append(step(input_ids, labels))
                seconds.append(time.perf_counter() - start)
            answer: dict[str, Any] = {"seconds": seconds, "losses": losses}
        elif "gemm" in command:
            answer = {"gemm_flops": gemm_rate(*command["gemm"])}
        else:
            answer = {"peak_bytes": _status_bytes("VmHWM"), "baseline_bytes": baseline}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
