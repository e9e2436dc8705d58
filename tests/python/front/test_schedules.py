"""Learning rates: warm-up, the peak, the end, and torch's cosine."""

import math

import pytest

from mindspeed_llm.config import TrainingConfig
from mindspeed_llm.schedules import Schedule


def schedule(kind: str, warmup: int = 10, steps: int = 100) -> Schedule:
    return Schedule(kind, 1.0, 0.1, warmup, steps, 0.2)


@pytest.mark.parametrize("kind", ["constant", "cosine", "linear", "wsd"])
def test_warm_up_rises_linearly_to_the_peak(kind: str):
    rates = [schedule(kind)(step) for step in range(1, 11)]
    assert rates == pytest.approx([step / 10 for step in range(1, 11)])


@pytest.mark.parametrize(
    ("kind", "end"), [("constant", 1.0), ("cosine", 0.1), ("linear", 0.1), ("wsd", 0.1)]
)
def test_the_last_step_has_the_final_rate(kind: str, end: float):
    assert schedule(kind)(100) == pytest.approx(end)
    assert schedule(kind, warmup=0)(100) == pytest.approx(end)


def test_halfway_values():
    assert schedule("cosine")(55) == pytest.approx(0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi / 2)))
    assert schedule("linear")(55) == pytest.approx(0.1 + 0.9 * 0.5)
    assert schedule("wsd")(80) == 1.0
    assert schedule("wsd")(90) == pytest.approx(0.55)


def test_defaults_come_from_the_configuration():
    made = Schedule.from_config(TrainingConfig(lr=1e-3, max_steps=500))
    assert (made.warmup_steps, made.min_lr) == (10, 1e-4)
