"""Reads what a run left, for comparisons bit by bit."""

from pathlib import Path
from typing import Any

import torch

from mindspeed_llm.metrics import read_metrics
from mindspeed_llm.run_checkpoint import newest_checkpoint, open_checkpoint


def losses(run: Path) -> dict[int, tuple[float, float]]:
    """Loss and gradient norm by step; fails when a step stands there twice."""
    lines = read_metrics(run / "metrics.jsonl")
    steps = [line["step"] for line in lines]
    assert len(steps) == len(set(steps)), f"a step stands twice: {steps}"
    return {line["step"]: (line["loss"], line["grad_norm"]) for line in lines}


def tensors(run: Path) -> dict[str, torch.Tensor]:
    """Every tensor of the newest checkpoint: weights, optimizer state, random numbers."""
    path, rejected = newest_checkpoint(run)
    assert path is not None, rejected
    reader: Any = open_checkpoint(path)
    return {name: reader.read(name) for name in reader.names()}


def assert_same_run(run: Path, expected: Path) -> None:
    """The two runs left the same losses and tensors, bit for bit."""
    assert losses(run) == losses(expected)
    ours, theirs = tensors(run), tensors(expected)
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert torch.equal(ours[name], tensor), name
