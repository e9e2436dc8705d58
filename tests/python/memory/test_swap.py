"""Swapping: the same run bit for bit with less memory in use, alone and with recomputation; nothing left on disk."""

import json
import subprocess
import sys
from pathlib import Path

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
    _C.pool_set_limit(0)
    _C.pool_disable()
    _C.pool_trim()


def make_engine(folder: Path, swap: str, recompute: str = "none", precision: str = "fp32"):
    model = _C.CausalLM(json.dumps(SPEC), seed=7)
    settings = {"precision": precision, "recompute": [recompute] * 6, "optimizer": {}}
    if swap != "none":
        settings["swap"] = {
            "activations": swap in ("activations", "all"),
            "optimizer": swap in ("optimizer", "all"),
            "folder": str(folder),
        }
    return model, _C.StepEngine(model, json.dumps(settings))


def make_batch(tokens: int = TOKENS):
    ids = torch.randint(0, 101, (tokens // 64, 64), generator=torch.Generator().manual_seed(5))
    return (ids, ids.roll(-1, 1), None, None)


def train(folder: Path, swap: str, recompute: str = "none", precision: str = "fp32"):
    """Losses of two steps of two micro batches, the weights after them, and the pool's peak in the last."""
    model, engine = make_engine(folder, swap, recompute, precision)
    losses = []
    for _ in range(2):
        _C.pool_reset_peak()
        losses.append(engine.forward_backward([make_batch(), make_batch(128)]).loss)
        engine.optimizer_step(1e-2)
    weights = {name: tensor.detach() for name, tensor in model.named_parameters()}
    return losses, weights, _C.pool_statistics()["peak_in_use_bytes"]


@pytest.mark.parametrize(
    ("swap", "recompute", "precision"),
    [
        ("activations", "none", "fp32"),
        ("all", "selective", "fp32"),
        ("all", "full", "bf16"),
    ],
)
def test_swapping_changes_nothing(tmp_path: Path, swap: str, recompute: str, precision: str):
    losses, weights, _ = train(tmp_path, "none", "none", precision)
    swapped_losses, swapped_weights, _ = train(tmp_path, swap, recompute, precision)
    assert swapped_losses == losses
    for name, weight in swapped_weights.items():
        assert torch.equal(weight, weights[name]), name
    assert not list(tmp_path.iterdir())  # the file has no name


def test_a_limit_that_stops_the_run_does_not_stop_it_swapped(tmp_path: Path):
    losses, _, peak = train(tmp_path, "none")
    _, _, swapped_peak = train(tmp_path, "activations")
    assert swapped_peak < 0.75 * peak
    _C.pool_set_limit((peak + swapped_peak) // 2)
    with pytest.raises(RuntimeError, match="the pool's limit is"):
        train(tmp_path, "none")
    assert train(tmp_path, "activations")[0] == losses


def test_moments_of_a_checkpoint_are_those_of_the_file(tmp_path: Path):
    _, engine = make_engine(tmp_path, "optimizer")
    engine.forward_backward([make_batch(128)])
    engine.optimizer_step(1e-2)
    state = {name: tensor.clone() for name, tensor in engine.optimizer_state().items()}
    assert all(tensor.abs().sum() > 0 for tensor in state.values())
    _, other = make_engine(tmp_path, "optimizer")
    other.load_optimizer_state(state)
    for name, tensor in other.optimizer_state().items():
        assert torch.equal(tensor, state[name]), name


@pytest.mark.parametrize("swap", ["activations", "optimizer"])
def test_a_full_folder_is_one_clear_line(tmp_path: Path, swap: str):
    """A limit on file sizes stands for a full disk: both fail the same calls."""
    code = f"""
import resource, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_swap import train
resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
try:
    train(Path({str(tmp_path)!r}), {swap!r})
except OSError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    line = run.stdout.strip()
    assert line.startswith(f"memory.swap_folder ({tmp_path})"), run.stderr
    assert line.endswith("; free space there, or set another folder")
    assert "\n" not in line
