"""One normalisation: accumulation and ranks, with uneven numbers of valid tokens, give the same step."""

import json
import math

import pytest
import torch

from mindspeed_core import _C

SPEC = {
    "vocab_size": 97,
    "hidden_size": 32,
    "num_layers": 2,
    "attention": {"num_heads": 4, "num_key_value_heads": 2, "head_size": 8},
    "mlp": {"intermediate_size": 56},
}
BATCH, LENGTH = 8, 16


def make_batch() -> tuple[torch.Tensor, torch.Tensor]:
    """8 rows; very uneven numbers of valid labels, the last row none at all."""
    generator = torch.Generator().manual_seed(5)
    input_ids = torch.randint(0, 97, (BATCH, LENGTH), generator=generator)
    labels = torch.randint(0, 97, (BATCH, LENGTH), generator=generator)
    for row in range(BATCH):
        labels[row, : row * 2] = -100
    labels[BATCH - 1] = -100
    return input_ids, labels


def make_engine(**settings):
    model = _C.CausalLM(json.dumps(SPEC), seed=7)
    return model, _C.StepEngine(model, json.dumps({"clip_norm": 0.0, **settings}))


def run(accumulation: int):
    model, engine = make_engine()
    input_ids, labels = make_batch()
    chunks = zip(input_ids.chunk(accumulation), labels.chunk(accumulation), strict=True)
    stats = engine.forward_backward([(ids, label, None, None) for ids, label in chunks])
    return stats, {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("accumulation", [2, 4, 8])
def test_accumulation_does_not_change_the_step(accumulation: int):
    expected, expected_gradients = run(1)
    actual, gradients = run(accumulation)
    assert actual.valid_tokens == expected.valid_tokens
    assert actual.loss == pytest.approx(expected.loss, rel=1e-6)
    assert actual.grad_norm == pytest.approx(expected.grad_norm, rel=1e-6)
    for name, gradient in gradients.items():
        error = (gradient - expected_gradients[name]).norm() / expected_gradients[name].norm()
        assert error < 1e-6, name


def test_loss_is_the_mean_over_valid_tokens():
    model, engine = make_engine()
    input_ids, labels = make_batch()
    stats = engine.forward_backward([(input_ids, labels, None, None)])
    hidden = model.hidden(input_ids)
    logits = model.logits_of_hidden(hidden).double()
    expected = torch.nn.functional.cross_entropy(logits, labels.reshape(-1), ignore_index=-100)
    assert stats.loss == pytest.approx(expected.item(), rel=1e-6)
    assert stats.valid_tokens == (labels != -100).sum().item()


def test_no_valid_token_at_all_is_refused():
    _, engine = make_engine()
    input_ids, labels = make_batch()
    with pytest.raises(ValueError, match="every label is -100"):
        engine.forward_backward([(input_ids, torch.full_like(labels, -100), None, None)])


def test_clipping_bounds_the_global_norm():
    model, engine = make_engine(clip_norm=0.01)
    input_ids, labels = make_batch()
    stats = engine.forward_backward([(input_ids, labels, None, None)])
    squares = sum(p.grad.double().square().sum().item() for _, p in model.named_parameters())
    assert stats.grad_norm > 0.01
    assert math.sqrt(squares) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_loss_falls_in_every_precision(precision: str):
    optimizer = {"betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
    _, engine = make_engine(precision=precision, clip_norm=1.0, optimizer=optimizer)
    input_ids, labels = make_batch()
    losses = []
    for _ in range(30):
        stats = engine.forward_backward([(input_ids, labels, None, None)])
        engine.optimizer_step(3e-3)
        losses.append(stats.loss)
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("model.layers.1.mlp.down_proj.weight", "model.layers.1.mlp.down_proj.weight (parameter)"),
    ],
)
def test_non_finite_parameter_is_named(name: str, expected: str):
    model, engine = make_engine()
    input_ids, labels = make_batch()
    with torch.no_grad():
        dict(model.named_parameters())[name][0, 0] = float("nan")
    stats = engine.forward_backward([(input_ids, labels, None, None)])
    assert not stats.finite
    assert engine.find_non_finite([(input_ids, labels, None, None)]).startswith(expected)


def test_first_overflowing_operator_is_named():
    model, engine = make_engine()
    input_ids, labels = make_batch()
    with torch.no_grad():
        dict(model.named_parameters())["model.layers.1.mlp.up_proj.weight"].fill_(3e38)
    assert not engine.forward_backward([(input_ids, labels, None, None)]).finite
    found = engine.find_non_finite([(input_ids, labels, None, None)])
    assert found == "model.layers.1.mlp.up_proj (forward), micro batch 0"


def test_initial_weights_do_not_depend_on_the_layout():
    spec = json.dumps({**SPEC, "vocab_size": 98})
    whole = dict(_C.CausalLM(spec, seed=3).named_parameters())
    for rank in range(2):
        layout = {"tensor_size": 2, "tensor_rank": rank}
        model = _C.CausalLM(spec, seed=3, layout=layout)
        for owner, (name, part) in zip(
            model.parameter_owners(), model.named_parameters(), strict=True
        ):
            expected = whole[name]
            if owner["split_axis"] == "tensor":
                expected = expected.chunk(2, dim=owner["split_dim"])[rank]
            assert torch.equal(part, expected), name


def test_model_spec_errors_name_the_field():
    with pytest.raises(ValueError, match="num_key_value_heads \\(3\\) must divide"):
        _C.CausalLM(json.dumps({**SPEC, "attention": {"num_heads": 4, "num_key_value_heads": 3}}))
    with pytest.raises(ValueError, match="hiden_size: is not a field"):
        _C.CausalLM(json.dumps({"hiden_size": 3}))
