"""Contestants in turn on one core: the same work by every library, round after round."""

import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process, and the threads that libraries start in it, on one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def read_texts(folder: Path, corpus: str) -> list[str]:
    """The documents of FOLDER/corpus/CORPUS.jsonl."""
    with (folder / "corpus" / f"{corpus}.jsonl").open(encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


def interleave(
    contestants: Mapping[str, tuple[float, Callable[[], Any]]], rounds: int
) -> list[dict[str, Any]]:
    """Time ``name: (megabytes, work)`` in turn; a row with the median of the rounds for each."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, (_, work) in contestants.items():
            started = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - started)
    return [
        {
            "library": name,
            "megabytes": round(megabytes, 2),
            "seconds": [round(one, 4) for one in seconds[name]],
            "mb_per_s": round(megabytes / statistics.median(seconds[name]), 2),
        }
        for name, (megabytes, _) in contestants.items()
    ]
