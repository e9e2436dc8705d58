"""``mindspeed bench train``: pairs of processes, ours and one peer, that take turns step by step.

Both sides use the same number of threads and the same shapes. A round is one step of each; the order
alternates. Ratios are taken within a round, so a machine that slows down slows both.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from mindspeed_core.bench_results import conditions, write_csv
from mindspeed_llm.bench_train.contestants import CONTESTANTS

SHAPES: dict[str, dict[str, int]] = {
    "hidden512": {
        "hidden_size": 512,
        "num_layers": 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "intermediate_size": 1376,
        "vocab_size": 32000,
    },
    "hidden2048": {
        "hidden_size": 2048,
        "num_layers": 2,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 5632,
        "vocab_size": 32000,
    },
}
SIZES = [(2, 1024), (1, 4096)]
LIMIT_ROUNDS = 3
PROFILED = 20  # operators in the printed table


class Worker:
    """A contestant's process."""

    def __init__(self, job: dict[str, Any]):
        self.name = job["contestant"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mindspeed_llm.bench_train.worker", json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, command: dict[str, Any]) -> dict[str, Any]:
        """Send a command and wait for its answer.

        Raises:
            RuntimeError: the process ended instead of answering.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(
                f"contestant {self.name} ended with exit code {self.process.wait()}; see above"
            )
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def run_pair(
    peer: str, shape: dict[str, int], batch: int, sequence: int, rounds: int, threads: int
) -> dict[str, Any]:
    """Interleave ours and ``peer``; a row of the result table."""
    job = {"shape": shape, "batch": batch, "sequence": sequence, "threads": threads}
    workers: list[Worker] = []
    try:
        workers = [Worker({**job, "contestant": name}) for name in ("mindspeed", peer)]
        for worker in workers:
            worker.ask({"steps": 2})  # warm-up: compilation, allocator, optimizer state
        seconds: list[list[float]] = [[], []]
        for number in range(rounds):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            for index in order:
                seconds[index] += workers[index].ask({"steps": 1})["seconds"]
        memory = [worker.ask({"peak": True}) for worker in workers]
        # After the peaks were read, for the products need memory too; between steps of ours, for a fair clock.
        limits = []
        for _ in range(min(rounds, LIMIT_ROUNDS)):
            products_s = workers[0].ask({"products": True})["seconds"]
            limits.append(products_s / workers[0].ask({"steps": 1})["seconds"][0])
    finally:
        for worker in workers:
            worker.close()
    ratios = [theirs / ours for ours, theirs in zip(*seconds, strict=True)]
    tokens = batch * sequence
    ours_s = statistics.median(seconds[0])
    return {
        "peer": peer,
        "batch": batch,
        "sequence": sequence,
        "rounds": rounds,
        "ours_tokens_per_s": tokens / ours_s,
        "peer_tokens_per_s": tokens / statistics.median(seconds[1]),
        "ratio_median": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "ours_peak_bytes": memory[0]["peak_bytes"],
        "peer_peak_bytes": memory[1]["peak_bytes"],
        "ours_baseline_bytes": memory[0]["baseline_bytes"],
        "peer_baseline_bytes": memory[1]["baseline_bytes"],
        "limit_tokens_per_s": tokens / ours_s / statistics.median(limits),
        "ours_share_of_limit": statistics.median(limits),
    }


def _size(text: str) -> tuple[int, int]:
    batch, _, sequence = text.partition("x")
    return int(batch), int(sequence)


def main(argv: list[str]) -> int:
    """Entry of ``mindspeed bench train``."""
    parser = argparse.ArgumentParser(prog="mindspeed bench train", description=__doc__)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="results go here")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="and there, a line a row")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds a pair")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--size", action="append", type=_size, metavar="BxS", help="batch x sequence; default: both"
    )
    parser.add_argument("--shape", choices=SHAPES, default="hidden512")
    parser.add_argument(
        "--peer", action="append", choices=[name for name in CONTESTANTS if name != "mindspeed"]
    )
    parser.add_argument(
        "--profile", action="store_true", help="our step's operators by time, instead of peers"
    )
    arguments = parser.parse_args(argv)
    if arguments.profile and arguments.csv:
        parser.error("--csv holds comparisons; leave it out with --profile")
    if arguments.profile:
        return _profile(arguments)
    peers = arguments.peer or [name for name in CONTESTANTS if name != "mindspeed"]
    shape = SHAPES[arguments.shape]
    rows = []
    print(
        f"{'peer':<14}{'tokens':<10}{'ours tok/s':>11}{'peer tok/s':>11}{'ratio':>8}  "
        f"{'spread':<13}{'ours MiB':>9}{'peer MiB':>9}{'limit tok/s':>12}{'share':>7}"
    )
    for batch, sequence in arguments.size or SIZES:
        for peer in peers:
            row = run_pair(peer, shape, batch, sequence, arguments.rounds, arguments.threads)
            rows.append(row)
            print(
                f"{peer:<14}{f'{batch}x{sequence}':<10}{row['ours_tokens_per_s']:>11.0f}"
                f"{row['peer_tokens_per_s']:>11.0f}{row['ratio_median']:>8.2f}  "
                f"{row['ratio_min']:.2f}..{row['ratio_max']:<7.2f}"
                f"{row['ours_peak_bytes'] / 2**20:>9.0f}{row['peer_peak_bytes'] / 2**20:>9.0f}"
                f"{row['limit_tokens_per_s']:>12.0f}{row['ours_share_of_limit']:>7.0%}",
                flush=True,
            )
    if arguments.csv is not None:
        named = [{"shape": arguments.shape, **row} for row in rows]
        write_csv(arguments.csv, conditions(arguments.threads), named)
    _write(arguments, rows)
    return 0


def _profile(arguments: argparse.Namespace) -> int:
    """A table of our step's operators for each size."""
    shape = SHAPES[arguments.shape]
    rows = []
    for batch, sequence in arguments.size or SIZES:
        job = {"shape": shape, "batch": batch, "sequence": sequence, "threads": arguments.threads}
        worker = Worker({**job, "contestant": "mindspeed"})
        try:
            worker.ask({"steps": 2})
            operators = worker.ask({"profile": True})["operators"]
        finally:
            worker.close()
        total = sum(row["seconds"] for row in operators)
        print(f"{batch}x{sequence}: {total:.2f} s")
        print(f"  {'operator':<44}{'calls':>6}{'ms':>10}{'share':>8}")
        for row in operators[:PROFILED]:
            share = row["seconds"] / total
            print(
                f"  {row['operator']:<44}{row['calls']:>6}{row['seconds'] * 1e3:>10.1f}{share:>8.1%}"
            )
        rows.append({"batch": batch, "sequence": sequence, "operators": operators})
    _write(arguments, rows)
    return 0


def _write(arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """The rows with what they were measured on, as JSON."""
    result = {
        "command": "mindspeed bench train" + (" --profile" if arguments.profile else ""),
        **conditions(arguments.threads),
        "shape": SHAPES[arguments.shape],
        "rows": rows,
    }
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written: {arguments.json}")
