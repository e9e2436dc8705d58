"""Learning rates of our own optimizer: a pure function of the step."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mindspeed_llm.config import TrainingConfig


@dataclass(frozen=True)
class Schedule:
    """Linear warm-up to ``lr``, then ``kind`` down to ``min_lr`` at ``max_steps``."""

    kind: str
    lr: float
    min_lr: float
    warmup_steps: int
    max_steps: int
    decay_fraction: float

    @staticmethod
    def from_config(training: "TrainingConfig") -> "Schedule":
        """The schedule that the configuration describes, with its defaults filled in."""
        warmup, min_lr = training.warmup_steps, training.min_lr
        return Schedule(
            training.lr_schedule,
            training.lr,
            training.lr / 10 if min_lr is None else min_lr,
            min(2000, training.max_steps // 50) if warmup is None else warmup,
            training.max_steps,
            training.decay_fraction,
        )

    def __call__(self, step: int) -> float:
        """Learning rate of step 1, 2, ..., max_steps."""
        if step <= self.warmup_steps:
            return self.lr * step / self.warmup_steps
        if self.kind == "constant":
            return self.lr
        start = self.warmup_steps
        if self.kind == "wsd":
            start = max(start, self.max_steps - math.ceil(self.decay_fraction * self.max_steps))
            if step <= start:
                return self.lr
        progress = min(1.0, (step - start) / max(1, self.max_steps - start))
        if self.kind == "cosine":
            share = 0.5 * (1 + math.cos(math.pi * progress))
        else:
            share = 1 - progress
        return self.min_lr + (self.lr - self.min_lr) * share

    def describe(self) -> str:
        """A phrase for the plan."""
        fall = "" if self.kind == "constant" else f" to {self.min_lr:g}"
        return f"{self.lr:g}, {self.kind}{fall}, {self.warmup_steps} steps of warm-up"
