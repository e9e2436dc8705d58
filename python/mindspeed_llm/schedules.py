"""Learning rates of our own optimizers: a pure function of the step, computed by the engine (train/schedule.h)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mindspeed_core import _C

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
        return _C.learning_rate(
            self.kind,
            step,
            peak=self.lr,
            minimum=self.min_lr,
            warmup_steps=self.warmup_steps,
            total_steps=self.max_steps,
            decay_fraction=self.decay_fraction,
        )

    def describe(self) -> str:
        """A phrase for the plan."""
        fall = "" if self.kind == "constant" else f" to {self.min_lr:g}"
        return f"{self.lr:g}, {self.kind}{fall}, {self.warmup_steps} steps of warm-up"
