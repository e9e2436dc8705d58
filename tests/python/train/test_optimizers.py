"""Our torch optimizers: against a plain float64 reference over steps, as torch optimizers, and inside a run."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mindspeed_core.op_cases.adamw_8bit import dequantised, dynamic_map, largest_of_blocks
from mindspeed_core.optimizers import AdamW, AdamW8bit, FusedOptimizer, Lion, Muon
from mindspeed_llm import Trainer, TrainingArguments
from mindspeed_llm.errors import ConfigError
from mindspeed_llm.metrics import read_metrics
from mindspeed_llm.models import AutoModelForCausalLM
from mindspeed_llm.optimizers import TorchOptimizer
from mindspeed_llm.run_checkpoint import newest_checkpoint, open_checkpoint

SHAPES = [(33, 17), (257,), (40, 300), (5, 4, 3)]
STEPS = 12
Plain = Callable[[dict[str, Tensor], Tensor, int], Tensor]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The tensors are small: a second thread costs more than it does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def plain_adamw(state: dict[str, Tensor], grad: Tensor, step: int) -> Tensor:
    """AdamW's update for lr 1 without decay, by the paper's formula."""
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * grad
    state["v"] = 0.95 * state.get("v", 0) + 0.05 * grad**2
    mean, square = state["m"] / (1 - 0.9**step), state["v"] / (1 - 0.95**step)
    return mean / (square.sqrt() + 1e-8)


def plain_lion(state: dict[str, Tensor], grad: Tensor, step: int) -> Tensor:
    """Lion's."""
    mean = state.get("m", torch.zeros_like(grad))
    state["m"] = 0.99 * mean + 0.01 * grad
    return (0.9 * mean + 0.1 * grad).sign()


def plain_muon(state: dict[str, Tensor], grad: Tensor, step: int) -> Tensor:
    """Muon's for matrices, by singular values: a Newton-Schulz step maps each by an odd polynomial."""
    if grad.dim() != 2:
        return plain_adamw(state, grad, step)
    state["b"] = 0.95 * state.get("b", 0) + 0.05 * grad
    u, singular, v = torch.linalg.svd(0.95 * state["b"] + 0.05 * grad, full_matrices=False)
    singular = singular / singular.norm()
    for _ in range(5):
        singular = 3.4445 * singular - 4.7750 * singular**3 + 2.0315 * singular**5
    return 0.2 * max(grad.shape) ** 0.5 * (u * singular) @ v


ADAM = {"betas": (0.9, 0.95), "eps": 1e-8}
CONTESTANTS: dict[str, tuple[type[FusedOptimizer], dict[str, Any], Plain]] = {
    "AdamW": (AdamW, ADAM, plain_adamw),
    "Lion": (Lion, {"betas": (0.9, 0.99)}, plain_lion),
    "Muon": (Muon, ADAM, plain_muon),
}


def gradient(shape: tuple[int, ...], step: int) -> Tensor:
    """A bfloat16-exact pseudo-random gradient, so that every dtype sees the same numbers."""
    generator = torch.Generator().manual_seed(sum(shape) + 1000 * step)
    return torch.randn(shape, generator=generator).bfloat16().float()


def run(optimizer: torch.optim.Optimizer, first: int, last: int) -> None:
    """Steps first..last on the pseudo-random gradients."""
    for step in range(first, last + 1):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = gradient(tuple(parameter.shape), step).to(parameter.dtype)
        optimizer.step()


def start(dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    """Parameters that every dtype holds exactly."""
    return [nn.Parameter(gradient(shape, 0).to(dtype)) for shape in SHAPES]


@pytest.mark.parametrize("name", CONTESTANTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_follows_the_plain_formula_over_steps(name: str, dtype: torch.dtype):
    kind, settings, plain = CONTESTANTS[name]
    parameters = start(dtype)
    optimizer = kind(parameters, lr=1e-2, weight_decay=0.1, **settings)
    run(optimizer, 1, STEPS)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    for parameter, shape in zip(parameters, SHAPES, strict=True):
        exact, state = gradient(shape, 0).double(), {}
        for step in range(1, STEPS + 1):
            update = plain(state, gradient(shape, step).double(), step)
            exact = exact * (1 - 1e-2 * 0.1) - 1e-2 * update
        master = optimizer.state[parameter].get("master", parameter)
        assert master.dtype == wide
        # each step rounds the weight thrice and an update by a few ulp; Muon's GEMMs sum 300 terms
        rounding = 300 if name == "Muon" else 8
        bound = STEPS * rounding * torch.finfo(wide).eps * exact.abs().max()
        assert (master.detach().double() - exact).abs().max() <= bound
        assert torch.equal(parameter, master.to(dtype))


@pytest.mark.parametrize("kind", [AdamW, AdamW8bit, Lion, Muon])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_restored_optimizer_goes_on_bit_for_bit(
    kind: type[FusedOptimizer], dtype: torch.dtype, tmp_path: Path
):
    straight = [nn.Parameter(gradient((80, 70), 0).to(dtype)), *start(dtype)]
    optimizer = kind(straight, lr=1e-2, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    run(optimizer, 1, 3)
    scheduler.step()
    torch.save([straight, optimizer.state_dict(), scheduler.state_dict()], tmp_path / "saved")
    run(optimizer, 4, 6)
    resumed, state, schedule = torch.load(tmp_path / "saved", weights_only=False)
    again = kind(resumed, lr=7.0, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(again, step_size=1, gamma=0.5)
    again.load_state_dict(state)
    scheduler.load_state_dict(schedule)
    run(again, 4, 6)
    for ours, theirs in zip(resumed, straight, strict=True):
        assert torch.equal(ours, theirs)
        assert optimizer.state[theirs].keys() == again.state[ours].keys()
        for key, value in optimizer.state[theirs].items():
            other = again.state[ours][key]
            same = torch.equal(value, other) if isinstance(value, Tensor) else value == other
            assert same, key
            assert not isinstance(value, Tensor) or value.dtype == other.dtype


def test_loading_does_not_share_tensors_with_the_saved_state():
    parameters = start()
    optimizer = Lion(parameters)
    run(optimizer, 1, 1)
    state = copy.deepcopy(optimizer.state_dict())
    other = Lion(start())
    other.load_state_dict(state)
    run(other, 2, 2)
    for key, value in optimizer.state_dict()["state"].items():
        assert torch.equal(state["state"][key]["exp_avg"], value["exp_avg"])


def test_groups_have_their_own_settings_and_parameters_may_join_late():
    first, second, without = start()[:3]
    optimizer = AdamW([{"params": [first], "lr": 0.0, "weight_decay": 0.0}], lr=1.0)
    optimizer.add_param_group({"params": [second, without], "weight_decay": 0.0})
    before = [p.detach().clone() for p in (first, second, without)]
    first.grad, second.grad = torch.ones_like(first), torch.ones_like(second)
    optimizer.step()
    assert torch.equal(first, before[0])
    torch.testing.assert_close(second, before[1] - 1.0)
    assert torch.equal(without, before[2]) and without not in optimizer.state


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: AdamW(p, lr=-1.0), "AdamW: lr must be at least 0, got -1.0"),
        (lambda p: Lion(p, betas=(0.9, 1.0)), r"Lion: betas\[1\] must be in \[0, 1\), got 1.0"),
        (lambda p: Muon(p, momentum=1.5), r"Muon: momentum must be in \[0, 1\), got 1.5"),
        (lambda p: AdamW8bit([p[0].double()]), "AdamW8bit: parameters must be float32, bfloat16"),
        (lambda p: Lion([p[0].int()]), "Lion: parameters must be floating point, got torch.int32"),
    ],
)
def test_wrong_settings_are_refused(make: Callable[..., object], message: str):
    with pytest.raises(ValueError, match=message):
        make([torch.zeros(3)])


def test_sparse_gradients_are_refused_by_name():
    embedding = nn.Embedding(4, 3, sparse=True)
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match=r"Lion: gradients must be dense.*use sparse=False"):
        Lion(embedding.parameters()).step()


@pytest.mark.parametrize("signed", [True, False])
def test_codes_are_the_nearest_values_of_the_map(signed: bool):
    values = dynamic_map(signed)
    assert len(values) == 256 == len(values.unique()) and values.max() == 1
    parameter = nn.Parameter(torch.zeros(100, 77))  # the last block is short
    # betas of 0: the mean is the gradient, the mean square its square
    optimizer = AdamW8bit([parameter], betas=(0.0, 0.0), min_8bit_size=0)
    generator = torch.Generator().manual_seed(0)
    magnitudes = 10 ** (-8 * torch.rand(100, 77, generator=generator))
    parameter.grad = magnitudes * torch.randn(100, 77, generator=generator)
    optimizer.step()
    state, name = optimizer.state[parameter], "exp_avg" if signed else "exp_avg_sq"
    moment = parameter.grad if signed else parameter.grad.square()
    codes, scales = state[f"{name}_codes"], state[f"{name}_scales"]
    assert torch.equal(scales, largest_of_blocks(moment))
    share = moment.double().flatten() / scales.double().repeat_interleave(256)[: moment.numel()]
    got = values[codes.long().flatten()]
    nearest = (share[:, None] - values).abs().amin(1)
    assert ((share - got).abs() <= nearest + 4 * torch.finfo(torch.float32).eps * share.abs()).all()
    # Dettmers et al.: the top decade's parts are 0.9 / 64 (signed), 0.9 / 128 (unsigned) wide
    half_part = 0.9 / (64 if signed else 128) / 2
    assert (share - got).abs().max() <= half_part * (1 + 1e-5)
    restored = dequantised(codes, scales, signed)
    assert (restored - moment).abs().max() <= half_part * (1 + 1e-5) * moment.abs().max()


def test_all_zero_gradients_leave_zeros_in_8_bits():
    parameter = nn.Parameter(torch.ones(5000))
    optimizer = AdamW8bit([parameter], weight_decay=0.0)
    parameter.grad = torch.zeros(5000)
    optimizer.step()
    state = optimizer.state[parameter]
    assert torch.equal(parameter, torch.ones(5000))
    assert not dequantised(state["exp_avg_codes"], state["exp_avg_scales"], True).any()


def test_8_bit_states_take_a_quarter_of_the_memory():
    parameter = nn.Parameter(torch.zeros(256, 256))
    parameter.grad = torch.ones(256, 256)
    sizes = []
    for optimizer in (AdamW([parameter]), AdamW8bit([parameter])):
        optimizer.step()
        tensors = [t for t in optimizer.state[parameter].values() if isinstance(t, Tensor)]
        sizes.append(sum(tensor.nbytes for tensor in tensors))
    assert sizes[1] <= sizes[0] * (1 / 4 + 1 / 256)


def regression_loss(kind: type[FusedOptimizer], **settings: Any) -> float:
    """Mean squared error of a two-layer network on a fixed task after 150 steps."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(256, 32, generator=generator)
    target = (x @ torch.randn(32, 8, generator=generator) / 6).tanh()
    first = nn.Parameter(torch.randn(32, 128, generator=generator) / 6)
    second = nn.Parameter(torch.randn(128, 8, generator=generator) / 12)
    optimizer = kind([first, second], **settings)
    for _ in range(150):
        optimizer.zero_grad()
        loss = ((x @ first).tanh() @ second - target).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()


def test_8_bit_trains_as_float32_does():
    settings = {"lr": 1e-2, "weight_decay": 0.0}
    exact = regression_loss(AdamW, **settings)
    quantised = regression_loss(AdamW8bit, min_8bit_size=0, **settings)
    assert exact < 0.001 < 0.5 < regression_loss(AdamW, lr=0.0)
    assert quantised == pytest.approx(exact, rel=0.1)
    assert quantised != exact


def test_lion_and_muon_learn():
    assert regression_loss(Lion, lr=3e-3) < 0.02
    assert regression_loss(Muon, lr=3e-3, weight_decay=0.0) < 0.02


def test_muon_follows_torch_muon_up_to_its_bfloat16_gemms():
    ours, theirs = [nn.Parameter(gradient((40, 30), 0)) for _ in range(2)]
    settings = {"lr": 1e-2, "weight_decay": 0.1}
    run(Muon([ours], **settings), 1, 3)
    run(torch.optim.Muon([theirs], adjust_lr_fn="match_rms_adamw", **settings), 1, 3)
    # three updates of 0.2 sqrt(40) lr, in which bfloat16 moves singular values by some ulp
    update = 3 * 1e-2 * 0.2 * 40**0.5
    assert (ours - theirs).abs().max() <= 4 * torch.finfo(torch.bfloat16).eps * update


def train(config: Path, *overrides: str) -> None:
    args = TrainingArguments.from_yaml(config, overrides)
    model = AutoModelForCausalLM.from_config(args.model, parallel_config=args.parallel)
    Trainer(model=model, args=args).train()


def left_by(run: Path) -> tuple[list[float], dict[str, Tensor]]:
    """The losses of a run, and the tensors of its last checkpoint."""
    path, _ = newest_checkpoint(run)
    assert path is not None
    reader = open_checkpoint(path)
    losses = [line["loss"] for line in read_metrics(run / "metrics.jsonl")]
    return losses, {name: reader.read(name) for name in reader.names()}


@pytest.mark.parametrize("name", ["adamw_8bit", "lion", "muon"])
def test_the_configured_optimizer_trains_and_resumes_bit_for_bit(
    name: str, config: Path, tmp_path: Path
):
    # an embedding of 8192 elements, which adamw_8bit stores in 8 bits
    chosen = f"training.optimizer={name}", "model.vocab_size=256"
    for output, steps in (("straight", 5), ("cut", 2), ("cut", 5)):
        where = f"training.output_dir={tmp_path / output}"
        train(config, *chosen, where, f"training.max_steps={steps}")
    losses, tensors = left_by(tmp_path / "straight")
    again, resumed = left_by(tmp_path / "cut")
    assert again == losses and losses[-1] < losses[0]
    assert tensors.keys() == resumed.keys()
    state = (
        "momentum.model.layers.0.mlp.up_proj" if name == "muon" else "exp_avg.model.embed_tokens"
    )
    if name == "adamw_8bit":
        state = state.replace("exp_avg", "exp_avg_codes")
        assert tensors[f"optimizer.{state}.weight"].dtype == torch.uint8
    assert tensors[f"optimizer.{state}.weight"].any()
    for key, tensor in tensors.items():
        assert torch.equal(resumed[key], tensor), key


def test_only_hidden_matrices_are_orthogonalised(config: Path, tmp_path: Path):
    train(config, "training.optimizer=muon", "training.max_steps=2")
    _, tensors = left_by(tmp_path / "run")
    names = [key for key in tensors if key.startswith("optimizer.momentum.")]
    assert names and all(".layers." in name and "norm" not in name for name in names)
    assert "optimizer.exp_avg.model.embed_tokens.weight" in tensors
    assert "optimizer.exp_avg.lm_head.weight" in tensors


@pytest.mark.parametrize("name", ["adamw_8bit", "muon"])
def test_whole_parameters_are_asked_for_at_the_start(name: str, config: Path):
    with pytest.raises(ConfigError) as caught:
        TrainingArguments.from_yaml(config, [f"training.optimizer={name}", "parallel.fsdp=true"])
    message = str(caught.value)
    assert f"training.optimizer ({name}) must be adamw or lion under parallel.fsdp" in message
    assert "set parallel.fsdp: false" in message


def test_the_plan_names_the_optimizer(config: Path, capsys: pytest.CaptureFixture[str]):
    train(config, "training.optimizer=lion", "training.max_steps=2")
    assert "fused Lion, lr 0.003, constant" in capsys.readouterr().out


@pytest.mark.parametrize("kind", [AdamW8bit, Muon, torch.optim.Muon])
def test_a_script_s_optimizer_that_needs_whole_parameters_refuses_shards(kind: Any):
    whole, shard = nn.Parameter(torch.zeros(4, 3)), nn.Parameter(torch.zeros(2, 3))
    with pytest.raises(ConfigError, match=r"must have whole parameters: .*parallel.fsdp: false"):
        TorchOptimizer(kind([whole]), None, {"w": shard}, {"w": whole})
    TorchOptimizer(kind([whole]), None, {"w": whole}, {"w": whole})
