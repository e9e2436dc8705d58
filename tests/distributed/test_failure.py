"""A failed rank ends the job within 10 s, naming rank, host, step and operation; signals end it cleanly."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from launch import finish, kill, start
from run_folder import losses

JOB = Path(__file__).parent / "jobs" / "failing_training.py"
LIMIT_S = 10


def wait_for(condition: Callable[[], bool], limit_s: float = 90) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "the job did not come so far"
        time.sleep(0.02)


def free_port() -> int:
    """A TCP port that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_by_hand(config: Path, mode: str, folder: Path) -> list[subprocess.Popen[str]]:
    """Two ranks without torchrun."""
    port, jobs = str(free_port()), []
    for rank in ("0", "1"):
        environment = {**os.environ, "RANK": rank, "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        jobs.append(
            subprocess.Popen(
                [sys.executable, str(JOB), str(config), mode, str(folder)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
    return jobs


def assert_blames(stderr: str, reason: str) -> None:
    host = re.escape(socket.gethostname())
    pattern = rf"mindspeed: error: rank 1 on {host}, step 3, [a-z ]+: {reason}"
    assert re.search(pattern, stderr), stderr


@pytest.mark.parametrize("by_hand", [False, True], ids=["torchrun", "by hand"])
def test_a_killed_rank_ends_the_job(config: Path, tmp_path: Path, by_hand: bool):
    if by_hand:
        jobs = start_by_hand(config, "hang", tmp_path)
    else:
        jobs = [start(2, JOB, str(config), "hang", str(tmp_path))]
    try:
        wait_for((tmp_path / "hanging").exists)
        time.sleep(1)  # rank 0 is waiting for rank 1 by now
        os.kill(int((tmp_path / "1").read_text()), signal.SIGKILL)
        code, _, stderr = finish(jobs[0], LIMIT_S)
    finally:
        for job in jobs:
            kill(job)
    assert code != 0
    assert_blames(stderr, r"process \d+ died")


@pytest.mark.parametrize("by_hand", [False, True], ids=["torchrun", "by hand"])
def test_a_raised_exception_ends_the_job(config: Path, tmp_path: Path, by_hand: bool):
    if by_hand:
        jobs = start_by_hand(config, "raise", tmp_path)
    else:
        jobs = [start(2, JOB, str(config), "raise", str(tmp_path))]
    try:
        metrics = tmp_path / "run" / "metrics.jsonl"
        wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") >= 2)
        code, _, stderr = finish(jobs[0], LIMIT_S)
    finally:
        for job in jobs:
            kill(job)
    assert code != 0
    assert_blames(stderr, "ValueError: the third step fails")


def test_an_exception_of_a_single_process_names_its_place(config: Path, tmp_path: Path):
    code, _, stderr = finish(start(1, JOB, str(config), "raise", str(tmp_path)))
    assert code != 0
    assert "Traceback" in stderr  # a fault of the program is shown where it is
    assert f"rank 0 on {socket.gethostname()}, step 3, optimizer: ValueError" in stderr


def pretrain_alone(config: Path, *overrides: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "mindspeed_llm", "pretrain", str(config), *overrides],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_finishes_the_step_and_saves(
    config: Path, tmp_path: Path, number: signal.Signals, code: int
):
    metrics = tmp_path / "run" / "metrics.jsonl"
    job = pretrain_alone(config, "training.max_steps=1000000", "training.save_interval=0")
    wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") >= 3)
    job.send_signal(number)
    returned, stdout, stderr = finish(job, 60)
    assert returned == code, stderr
    assert "finishing this step and saving" in stderr and "Traceback" not in stderr
    last = max(losses(tmp_path / "run"))
    assert f"step_{last:08d}" in stdout
    assert (tmp_path / "run" / "checkpoints" / f"step_{last:08d}" / "index.json").exists()


def test_a_signal_to_torchrun_saves_one_step_of_both_ranks(config: Path, tmp_path: Path):
    metrics = tmp_path / "run" / "metrics.jsonl"
    overrides = ("training.max_steps=1000000", "training.save_interval=0")
    job = start(2, "-m", "mindspeed_llm", "pretrain", str(config), *overrides)
    wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") >= 3)
    job.send_signal(signal.SIGTERM)
    code, _, stderr = finish(job, 60)
    assert code != 0
    last = max(losses(tmp_path / "run"))
    assert (tmp_path / "run" / "checkpoints" / f"step_{last:08d}" / "index.json").exists(), stderr


def test_a_second_signal_ends_at_once(config: Path, tmp_path: Path):
    job = subprocess.Popen(
        [sys.executable, str(JOB), str(config), "hang", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for((tmp_path / "hanging").exists)
    job.send_signal(signal.SIGINT)
    assert job.stderr is not None
    while "finishing this step" not in job.stderr.readline():
        assert job.poll() is None  # it would finish the step, which hangs
    job.send_signal(signal.SIGINT)
    code, _, _ = finish(job, 5)
    assert code == 130
