"""Which elements drop: a function of seed and place alone, at the asked rate."""

import pytest
import torch

from mindspeed_core.ops import bias_dropout_add


def dropped(rows: int, columns: int, p: float, seed: int) -> torch.Tensor:
    x = torch.ones(rows, columns)
    return bias_dropout_add(x, None, torch.zeros_like(x), p, seed=seed) == 0


@pytest.mark.parametrize("p", [0.01, 0.1, 0.5, 0.9])
def test_rate_and_independence(p: float):
    mask = dropped(1000, 1000, p, 12345)
    deviation = (p * (1 - p)) ** 0.5
    assert (mask.double().mean() - p).abs() < 5 * deviation / 1000  # five standard deviations
    for line_means in (mask.double().mean(0), mask.double().mean(1)):
        assert (line_means - p).abs().max() < 6 * deviation / 1000**0.5
    centred = mask.double() - p
    for shift, dim in ((1, 0), (1, 1), (8, 1), (16, 0)):
        correlation = (centred * centred.roll(shift, dim)).mean()
        assert correlation.abs() < 5 * deviation**2 / 1000
    other = dropped(1000, 1000, p, 12346).double() - p
    assert (centred * other).mean().abs() < 5 * deviation**2 / 1000


def test_a_place_keeps_its_fate_in_a_longer_batch():
    assert torch.equal(dropped(50, 33, 0.4, 9)[:20], dropped(20, 33, 0.4, 9))


def test_high_bits_of_the_seed_count():
    assert not torch.equal(dropped(20, 33, 0.4, 9), dropped(20, 33, 0.4, 9 + 2**40))


def test_torch_manual_seed_repeats_it():
    x = torch.ones(20, 33)
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(bias_dropout_add(x, None, x, 0.5))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_nothing_drops_outside_training():
    x = torch.rand(20, 33)
    assert torch.equal(bias_dropout_add(x, None, x, 0.5, training=False), x + x)


def test_backward_stores_no_mask():
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: saved.append(t.numel()) or t, lambda t: t
    ):
        x = torch.rand(20, 33, requires_grad=True)
        bias_dropout_add(x, torch.rand(33), x, 0.5, seed=1).sum()
    assert saved == [33]
