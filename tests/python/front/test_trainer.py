"""What a run prints and leaves: plan, metrics, events, report; and that it stops at a non-finite loss."""

import json
from pathlib import Path

import pytest
import torch

from mindspeed_llm import Trainer, TrainingArguments
from mindspeed_llm.errors import ConfigError, NonFiniteError
from mindspeed_llm.flops import causal_pairs, matmul_parameters, training_flops
from mindspeed_llm.metrics import MetricsLog, read_metrics
from mindspeed_llm.models import AutoModelForCausalLM
from mindspeed_llm.models.causal_lm import CausalLM
from mindspeed_llm.report import step_shares

FIXED_KEYS = {
    *("step", "loss", "grad_norm", "lr", "tokens", "tokens_per_s", "model_tflops", "mfu"),
    *("step_s", "data_s", "peak_memory_bytes"),
}


def build(config: Path, *overrides: str) -> tuple[CausalLM, TrainingArguments]:
    args = TrainingArguments.from_yaml(config, overrides)
    return AutoModelForCausalLM.from_config(args.model, parallel_config=args.parallel), args


def test_a_run_prints_its_plan_and_leaves_its_files(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    model, args = build(config)
    Trainer(model=model, args=args).train()
    printed = capsys.readouterr().out.splitlines()
    plan = printed[: next(n for n, line in enumerate(printed) if line.startswith("step 1/"))]
    assert len(plan) < 25
    assert max(len(line) for line in plan) <= 80
    for (
        label
    ) in "model layout batch precision kernels pool peak memory optimizer data start".split():
        assert any(line.startswith(label) for line in plan), label
    run = tmp_path / "run"
    lines = read_metrics(run / "metrics.jsonl")
    assert [line["step"] for line in lines] == list(range(1, 9))
    for line in lines:
        assert line.keys() >= FIXED_KEYS
        assert line["tokens"] == 4 * 32
        parts = [
            line[key] for key in ("data_s", "forward_s", "backward_s", "optimizer_s", "save_s")
        ]
        assert 0 < sum(parts) <= line["step_s"]
        assert 0 < line["mfu"] < 1
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert list((run / "tensorboard").glob("events.out.tfevents.*"))
    report = (run / "report.html").read_text()
    assert report.count("data:image/png;base64,") == 5
    assert "http" not in report.replace("http-equiv", "")
    closing = printed[-5:]
    assert closing[0] == f"left in {run}:"
    for line, name in zip(
        closing[1:], ["step_00000008", "metrics.jsonl", "tensorboard", "report.html"], strict=True
    ):
        assert line.endswith(name)
        assert Path(line.split()[-1]).exists()
    assert TrainingArguments.from_yaml(run / "config.yaml").model == args.model


def test_the_script_s_optimizer_and_scheduler_are_used(config: Path, tmp_path: Path):
    model, args = build(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.1)
    Trainer(model=model, args=args, optimizer=optimizer, lr_scheduler=scheduler).train()
    rates = [line["lr"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")]
    assert rates == pytest.approx([0.01] * 4 + [0.001] * 4)


def test_our_adamw_equals_torch_adamw_with_the_same_settings(config: Path, tmp_path: Path):
    overrides = ["training.warmup_steps=0", "training.weight_decay=0"]
    model, args = build(config, *overrides, f"training.output_dir={tmp_path}/ours")
    Trainer(model=model, args=args).train()
    model, args = build(config, *overrides, f"training.output_dir={tmp_path}/theirs")
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=3e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0
    )
    Trainer(model=model, args=args, optimizer=optimizer).train()
    ours = [line["loss"] for line in read_metrics(tmp_path / "ours" / "metrics.jsonl")]
    theirs = [line["loss"] for line in read_metrics(tmp_path / "theirs" / "metrics.jsonl")]
    assert ours == pytest.approx(theirs, rel=1e-5)


def test_a_non_finite_weight_stops_the_run_naming_layer_and_operator(config: Path):
    model, args = build(config)
    weight = dict(model.named_parameters())["model.layers.1.mlp.down_proj.weight"]
    with torch.no_grad():
        weight[0, 0] = float("inf")
    with pytest.raises(
        NonFiniteError, match=r"step 1: the loss is not finite; first in .*layers\.1\."
    ):
        Trainer(model=model, args=args).train()


@pytest.mark.parametrize("key", ["tensor_parallel", "pipeline_parallel"])
def test_a_layout_that_is_not_trained_is_refused_in_one_line(config: Path, key: str):
    model, _ = build(config)
    args = TrainingArguments.from_yaml(config, [f"parallel.{key}=2"])
    with pytest.raises(ConfigError) as caught:
        Trainer(model=model, args=args)
    message = str(caught.value)
    assert f"parallel.{key} must be 1 for training, got 2; set parallel.{key}: 1" in message


def test_an_optimizer_of_other_parameters_is_refused(config: Path):
    model, args = build(config)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(3))], lr=1.0)
    with pytest.raises(ConfigError, match=r"must update parameters of the model"):
        Trainer(model=model, args=args, optimizer=optimizer).train()


def test_flops_count_packed_causal_attention_as_computed():
    model = AutoModelForCausalLM.from_config(
        TrainingArguments.model_validate(
            {
                "model": {
                    "vocab_size": 10,
                    "hidden_size": 8,
                    "num_layers": 3,
                    "num_attention_heads": 2,
                    "num_key_value_heads": 1,
                    "intermediate_size": 16,
                }
            }
        ).model
    )
    layer = 8 * 8 * 2 + 8 * 4 * 2 + 3 * 8 * 16
    assert matmul_parameters(model.spec) == 3 * layer + 8 * 10
    pairs = causal_pairs(torch.tensor([0, 3, 3, 5], dtype=torch.int32))
    assert pairs == 3 * 4 // 2 + 2 * 3 // 2
    # forward: q k^T and p v, 2 multiply-adds a pair and channel each; backward twice that
    attention = 3 * (2 * 2 * pairs * 8) * 3
    assert training_flops(model.spec, 5, pairs) == 6 * (3 * layer + 80) * 5 + attention


def test_metrics_after_the_resumed_step_are_dropped(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    whole = "".join(json.dumps({"step": step}) + "\n" for step in range(1, 6))
    path.write_text(whole + '{"step": 6, "lo')  # cut by a crash
    log = MetricsLog(tmp_path, 3)
    log.write({"step": 4, "loss": 1.0})
    log.close()
    assert [line["step"] for line in read_metrics(path)] == [1, 2, 3, 4]


def test_the_shares_of_a_step_sum_to_one():
    lines = [{"step_s": 2.0, "forward_s": 0.5, "backward_s": 1.0, "data_s": 0.1}] * 3
    shares = step_shares(lines)
    assert sum(share for _, _, share in shares) == pytest.approx(1.0)
    assert shares[0][0] == "backward"


def test_a_swapped_run_has_the_same_losses_and_leaves_no_file(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    losses = []
    for swap in ("none", "all"):
        model, args = build(config, f"memory.swap={swap}", f"training.output_dir={tmp_path}/{swap}")
        Trainer(model=model, args=args).train()
        lines = read_metrics(tmp_path / swap / "metrics.jsonl")
        losses.append([line["loss"] for line in lines])
    assert losses[0] == losses[1]
    printed = " ".join(capsys.readouterr().out.split())
    assert "swap activations and the optimizer's moments in a file in" in printed
    assert printed.count("written meanwhile") == 1  # swapped moments are written at once
    assert not list((tmp_path / "all").glob(".mindspeed-swap*"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["memory.swap_folder=x"], r"memory.swap_folder needs memory.swap"),
        (
            ["memory.swap=all", "memory.budget_gb=9"],
            r"memory.swap \(all\) must not be set together",
        ),
        (
            ["memory.swap=all", "training.optimizer=lion"],
            r"training.optimizer: adamw only, got lion",
        ),
    ],
)
def test_a_swap_that_cannot_be_is_refused(config: Path, overrides: list[str], message: str):
    with pytest.raises(ConfigError, match=message):
        build(config, *overrides)


def test_swapped_moments_refuse_the_script_s_optimizer_by_name(config: Path):
    model, args = build(config, "memory.swap=optimizer")
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with pytest.raises(ConfigError, match=r"got a script's SGD; set memory.swap: activations"):
        Trainer(model=model, args=args, optimizer=optimizer).train()
