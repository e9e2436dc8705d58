"""A run that was cut and resumed equals the straight one bit for bit, however it was cut."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launch import run
from run_folder import assert_same_run, losses

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "llama2" / "pretrain_llama2.py"
LAYOUTS = {"one": (1, []), "two": (2, []), "two sharded": (2, ["parallel.fsdp=true"])}


def train(processes: int, config: Path, output: Path, *overrides: str) -> None:
    where = f"training.output_dir={output}"
    run(processes, "-m", "mindspeed_llm", "pretrain", str(config), where, *overrides)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_cut_run_equals_the_straight_one(layout: str, config: Path, tmp_path: Path):
    processes, overrides = LAYOUTS[layout]
    train(processes, config, tmp_path / "straight", *overrides)
    for steps in (3, 8):
        train(processes, config, tmp_path / "cut", f"training.max_steps={steps}", *overrides)
    assert_same_run(tmp_path / "cut", tmp_path / "straight")


def run_printed_script(processes: int, config: Path, output: Path, *overrides: str) -> None:
    where = f"training.output_dir={output}"
    run(processes, SCRIPT, "--config", str(config), where, *overrides)


@pytest.mark.parametrize("processes", [1, 2])
def test_the_printed_script_resumes_with_its_python_optimizer(
    processes: int, config: Path, tmp_path: Path
):
    run_printed_script(processes, config, tmp_path / "straight")
    run_printed_script(processes, config, tmp_path / "cut", "training.max_steps=3")
    run_printed_script(processes, config, tmp_path / "cut")
    assert_same_run(tmp_path / "cut", tmp_path / "straight")


def test_the_printed_script_trains_alike_over_1_2_and_4_processes(config: Path, tmp_path: Path):
    for processes in (1, 2, 4):
        run_printed_script(processes, config, tmp_path / str(processes))
    alone = losses(tmp_path / "1")
    for processes in (2, 4):
        several = losses(tmp_path / str(processes))
        for step, (loss, _) in alone.items():
            assert several[step][0] == pytest.approx(loss, rel=1e-5), f"step {step}"


def test_killed_while_a_checkpoint_is_being_written(config: Path, tmp_path: Path):
    # a model large enough that writing takes time, saved after every step
    overrides = ["model.vocab_size=60000", "training.save_interval=1", "training.keep_last=2"]
    train(1, config, tmp_path / "straight", *overrides)
    output = tmp_path / "cut"
    kills = 0
    for _ in range(40):
        command = [sys.executable, "-m", "mindspeed_llm", "pretrain", str(config)]
        command += [f"training.output_dir={output}", *overrides]
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seen = set(output.glob("checkpoints/*.tmp"))
        while job.poll() is None:
            if kills < 2 and set(output.glob("checkpoints/*.tmp")) - seen:
                os.kill(job.pid, signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.001)
        text, _ = job.communicate(timeout=120)
        if job.returncode == 0:
            break
        assert job.returncode == -signal.SIGKILL, text
    assert kills == 2
    assert_same_run(output, tmp_path / "straight")
