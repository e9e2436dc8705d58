"""A loss that leaps is told; noise and a falling loss are not."""

from mindspeed_llm.loss_guard import SETTLE, LossGuard


def test_a_leap_is_told_and_a_falling_loss_is_not():
    guard = LossGuard(2.0)
    assert all(guard.spike(8.0 - 0.05 * step) is None for step in range(60))
    sentence = guard.spike(40.0)
    assert sentence is not None and "the loss leapt to 40" in sentence


def test_nothing_is_told_before_the_mean_has_settled_or_when_off():
    guard = LossGuard(2.0)
    assert all(guard.spike(loss) is None for loss in [1.0, 9.0] * (SETTLE // 2))
    off = LossGuard(0.0)
    assert all(off.spike(loss) is None for loss in [1.0] * 30 + [100.0])


def test_a_restored_guard_goes_on_alike():
    guard = LossGuard(2.0)
    for _ in range(30):
        guard.spike(3.0)
    restored = LossGuard(2.0)
    restored.load(guard.state())
    assert restored.spike(10.0) == guard.spike(10.0)
