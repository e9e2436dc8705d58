"""``mindspeed bench ops``: every fused operator, forward and backward, against eager PyTorch and torch.compile.

All contestants take turns in one process, round after round, so that a change of the machine's speed
meets all of them. A ratio is the median over rounds of (peer's time / ours in the same round); the
spread is the quartiles of the same.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

import mindspeed_core  # noqa: F401  (registers the operators)
from mindspeed_core.bench_results import conditions, write_csv
from mindspeed_core.op_cases import OperatorCases, operator_cases, operator_names

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
SECONDS_PER_TURN = 0.05


def one_pass(function: Callable[..., Any], inputs: tuple[Any, ...]) -> Callable[[], None]:
    """A forward, and a backward where inputs ask for it."""
    leaves = [x for x in tree_flatten(inputs)[0] if isinstance(x, torch.Tensor)]
    leaves = [x for x in leaves if x.requires_grad]
    cotangents: list[torch.Tensor] = []

    def run() -> None:
        results = function(*inputs)
        if not leaves:
            return
        outputs = results if isinstance(results, tuple) else (results,)
        outputs = tuple(output for output in outputs if output.requires_grad)
        if not cotangents:
            cotangents.extend(torch.ones_like(output) for output in outputs)
        torch.autograd.grad(outputs, leaves, cotangents)

    return run


def seconds_each(run: Callable[[], None], repeats: int) -> float:
    """Mean time of one pass over `repeats` of them."""
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats


def interleaved(runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """Seconds a pass of each contestant in every round."""
    repeats = {}
    for name, run in runs.items():
        run()  # compiles, allocates
        repeats[name] = max(1, int(SECONDS_PER_TURN / max(seconds_each(run, 1), 1e-9)))
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(seconds_each(run, repeats[name]))
    return times


def contestants(cases: OperatorCases) -> dict[str, Callable[..., Any]]:
    """Ours, the plain formula, the plain formula through torch.compile, and what else the cases name."""
    ours, naive = cases.in_place or (cases.operator, cases.naive)
    torch.compiler.reset()
    return {"ours": ours, "eager": naive, "compile": torch.compile(naive), **cases.peers}


def measure(name: str, label: str, dtype_name: str, rounds: int) -> dict[str, Any]:
    """One row: an operator on one set of inputs."""
    cases = operator_cases(name)
    inputs = cases.bench[label](DTYPES[dtype_name])
    runs = {key: one_pass(function, inputs) for key, function in contestants(cases).items()}
    times = interleaved(runs, rounds)
    row: dict[str, Any] = {
        "operator": name,
        "shape": label,
        "dtype": dtype_name,
        "ours_ms": 1e3 * statistics.median(times["ours"]),
    }
    if cases.bytes_moved is not None:
        row["ours_gb_per_s"] = cases.bytes_moved(*inputs) / 1e6 / row["ours_ms"]
    for peer in [name for name in runs if name != "ours"]:
        ratios = [theirs / ours for theirs, ours in zip(times[peer], times["ours"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        row[f"{peer}_ratio"] = middle
        row[f"{peer}_quartiles"] = [low, high]
    return row


def one_value_a_column(row: dict[str, Any]) -> dict[str, Any]:
    """A row for CSV: quartiles as two columns."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, list):
            flat[f"{key}_low"], flat[f"{key}_high"] = value
        else:
            flat[key] = value
    return flat


def describe(row: dict[str, Any]) -> str:
    """One line of the printed table."""
    parts = [f"{row['operator']:21} {row['shape']:16} {row['dtype']:9} {row['ours_ms']:9.3f} ms"]
    for peer in [key.removesuffix("_ratio") for key in row if key.endswith("_ratio")]:
        low, high = row[f"{peer}_quartiles"]
        parts.append(f"{peer} / ours {row[f'{peer}_ratio']:6.2f} [{low:.2f} .. {high:.2f}]")
    return "  ".join(parts)


def main(argv: list[str] | None = None) -> int:
    """Entry of ``mindspeed bench ops``."""
    parser = argparse.ArgumentParser(prog="mindspeed bench ops", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="and there, a line a row")
    parser.add_argument(
        "--op", action="append", choices=operator_names(), help="only this one (repeatable)"
    )
    parser.add_argument("--dtype", choices=list(DTYPES), default="float32")
    parser.add_argument(
        "--rounds", type=int, default=7, help="turns of each contestant, at least 2"
    )
    args = parser.parse_args(argv)
    if args.rounds < 2:
        parser.error(f"--rounds must be at least 2, got {args.rounds}")
    rows = []
    for name in args.op or operator_names():
        if DTYPES[args.dtype] not in operator_cases(name).dtypes:
            print(f"{name:21} has no {args.dtype} kernel: left out", flush=True)
            continue
        for label in operator_cases(name).bench:
            rows.append(measure(name, label, args.dtype, args.rounds))
            print(describe(rows[-1]), flush=True)
    if args.csv is not None:
        lines = [{"rounds": args.rounds, **one_value_a_column(row)} for row in rows]
        write_csv(args.csv, conditions(torch.get_num_threads()), lines)
    if args.json is not None:
        report = {
            "command": "mindspeed bench ops",
            **conditions(torch.get_num_threads()),
            "rounds": args.rounds,
            "rows": rows,
        }
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0
