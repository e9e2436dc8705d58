"""One contestant in its own process: reads commands as JSON lines, answers as JSON lines.

Commands: ``{"steps": n}`` trains n steps and answers their seconds and losses; ``{"peak": true}`` answers
memory; ``{"profile": true}`` a step's operators; ``{"products": true}`` the seconds that the step's matrix
products take alone; end of input ends the process.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

from mindspeed_llm.bench_train.contestants import CONTESTANTS, Step
from mindspeed_llm.bench_train.matrix_products import seconds as seconds_of_products
from mindspeed_llm.bench_train.matrix_products import step_products


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def profile(step: Step, input_ids: torch.Tensor, labels: torch.Tensor) -> list[dict[str, Any]]:
    """Operators of one step by their own time, largest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        step(input_ids, labels)
    averages = sorted(profiler.key_averages(), key=lambda row: -row.self_cpu_time_total)
    return [
        {"operator": row.key, "calls": row.count, "seconds": row.self_cpu_time_total / 1e6}
        for row in averages
    ]


def serve(job: dict[str, Any]) -> None:
    """Build the contestant of ``job`` and answer commands until the input ends."""
    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    # Answers go to the real stdout; whatever libraries print goes to stderr.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    baseline = _status_bytes("VmRSS")
    shape = job["shape"]
    products = step_products(shape, job["batch"], job["sequence"])
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
        elif "profile" in command:
            answer = {"operators": profile(step, input_ids, labels)}
        elif "products" in command:
            answer = {"seconds": seconds_of_products(products)}
        else:
            answer = {"peak_bytes": _status_bytes("VmHWM"), "baseline_bytes": baseline}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
