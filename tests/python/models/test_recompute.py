"""Recomputation: the same step bit for bit with less kept, and a plan that stays under its budget."""

import json

import pytest
import torch

from mindspeed_core import _C

SPEC = {
    "vocab_size": 101,
    "hidden_size": 64,
    "num_layers": 6,
    "attention": {"num_heads": 4, "num_key_value_heads": 2, "head_size": 16},
    "mlp": {"intermediate_size": 256},
}
TOKENS = 4096


@pytest.fixture(autouse=True)
def pool():
    _C.pool_enable()
    yield
    _C.pool_disable()
    _C.pool_trim()


def make_engine(recompute: list[str] | None = None, precision: str = "fp32", **spec):
    model = _C.CausalLM(json.dumps(SPEC | spec), seed=7)
    settings = {"clip_norm": 0.0, "precision": precision}
    if recompute is not None:
        settings["recompute"] = recompute
    return model, _C.StepEngine(model, json.dumps(settings))


def make_batch(tokens: int, packed: bool):
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(0, 101, (tokens // 32, 32), generator=generator)
    if not packed:
        return (ids, ids.roll(-1, 1), None, None)
    bounds = torch.tensor([0, 3, 3, tokens // 2, tokens - 1, tokens], dtype=torch.int32)
    positions = torch.cat([torch.arange(int(n)) for n in bounds.diff()]).int()
    return (ids, ids.roll(-1, 1), positions, bounds)


def step(recompute: list[str] | None, packed: bool, precision: str = "fp32", **spec):
    model, engine = make_engine(recompute, precision, **spec)
    stats = engine.forward_backward([make_batch(64, packed), make_batch(96, packed)])
    return stats, {name: parameter.grad for name, parameter in model.named_parameters()}


MIXED = ["full", "selective", "none", "none", "selective", "full"]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("choice", [["selective"] * 6, ["full"] * 6, MIXED], ids=str)
def test_recomputing_changes_nothing(choice: list[str], packed: bool, precision: str):
    expected, expected_gradients = step(None, packed, precision)
    actual, gradients = step(choice, packed, precision)
    assert (actual.loss, actual.grad_norm) == (expected.loss, expected.grad_norm)
    for name, gradient in gradients.items():
        assert torch.equal(gradient, expected_gradients[name]), name


def test_biases_get_their_gradients_in_every_kind():
    attention = SPEC["attention"] | {"bias": True}
    _, expected = step(None, True, attention=attention)
    _, gradients = step(MIXED, True, attention=attention)
    assert "model.layers.0.self_attn.q_proj.bias" in gradients
    for name, gradient in gradients.items():
        assert gradient.abs().sum() > 0 and torch.equal(gradient, expected[name]), name


def test_each_kind_keeps_what_it_says():
    """In float32 activations [T, hidden]: sums, q, k, v, attention's output, and the MLP's of four times the width."""
    _, engine = make_engine(attention=SPEC["attention"] | {"num_key_value_heads": 4})
    layer = engine.plan_recomputation([make_batch(TOKENS, False)], 1 << 40)["layer"]
    kept = {kind: cost["kept_bytes"] / (TOKENS * 64 * 4) for kind, cost in layer.items()}
    assert kept == {"none": 6 + 2 * 4, "selective": 6, "full": 1}


def test_the_peak_falls_with_every_kind():
    peaks = []
    for kind in ("none", "selective", "full"):
        _, engine = make_engine([kind] * 6)
        for _ in range(2):  # gradients exist from the second step on
            _C.pool_reset_peak()
            engine.forward_backward([make_batch(TOKENS, False)])
        peaks.append(_C.pool_statistics()["peak_in_use_bytes"])
    assert peaks[0] > 1.2 * peaks[1] > 1.2 * peaks[2]


def counts(plan) -> tuple[int, int, int]:
    return tuple(plan["by_layer"].count(kind) for kind in ("full", "selective", "none"))


def test_the_plan_s_measured_peak_is_under_the_budget():
    _, engine = make_engine()
    batch = [make_batch(2 * TOKENS, False)]
    least = engine.plan_recomputation(batch, 1)
    assert not least["fits"] and counts(least) == (6, 0, 0)
    most = engine.plan_recomputation(batch, 1 << 40)
    assert most["fits"] and counts(most) == (0, 0, 6)
    assert most["peak_bytes"] > least["peak_bytes"]
    kept = least["layer"]
    assert kept["none"]["kept_bytes"] > kept["selective"]["kept_bytes"] > kept["full"]["kept_bytes"]
    for part in (0.35, 0.7):
        budget = int(least["peak_bytes"] + part * (most["peak_bytes"] - least["peak_bytes"]))
        plan = engine.plan_recomputation(batch, budget)
        assert plan["fits"] and plan["peak_bytes"] <= budget
        assert counts(plan) not in [(6, 0, 0), (0, 0, 6)]


def test_planning_leaves_the_run_as_it_was():
    model, engine = make_engine()
    before = [parameter.clone() for _, parameter in model.named_parameters()]
    state = engine.state_json()
    engine.plan_recomputation([make_batch(256, True)], 1 << 40)
    assert engine.state_json() == state
    for (name, parameter), old in zip(model.named_parameters(), before, strict=True):
        assert torch.equal(parameter, old), name
        assert parameter.grad is None or not parameter.grad.any(), name


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (["full"] * 5, r"one entry a layer \(6\), got 5"),
        (["half"] * 6, r"recompute \('half'\) must be one of"),
    ],
)
def test_a_wrong_choice_is_refused(choice: list[str], message: str):
    with pytest.raises(ValueError, match=message):
        make_engine(choice)
