"""Notices a loss that leaps above its running mean."""

from typing import Any

WINDOW = 50  # steps that the running mean remembers
SETTLE = 20  # steps before the first verdict


class LossGuard:
    """Compares each loss with the exponential mean of those before it."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.mean = 0.0
        self.seen = 0

    def spike(self, loss: float) -> str | None:
        """A sentence when ``loss`` is ``factor`` times the running mean, else None."""
        sentence = None
        if self.factor > 0 and self.seen >= SETTLE and loss > self.factor * self.mean > 0:
            sentence = (
                f"the loss leapt to {loss:.4g}, {loss / self.mean:.1f} times its running mean"
                f" {self.mean:.4g}; a lower training.lr or training.clip_norm may help"
            )
        share = 1 / min(self.seen + 1, WINDOW)
        self.mean += share * (loss - self.mean)
        self.seen += 1
        return sentence

    def state(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"mean": self.mean, "seen": self.seen}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.mean, self.seen = float(state["mean"]), int(state["seen"])
