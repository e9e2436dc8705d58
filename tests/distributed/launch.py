"""Starts real multi-process jobs with a time limit; nothing of theirs outlives the test."""

import os
import signal
import subprocess
import sys
from pathlib import Path

TIME_LIMIT_S = 120


def start(
    processes: int, script: Path | str, *arguments: str, cwd: Path | None = None
) -> subprocess.Popen[str]:
    """Start ``torchrun`` with ``processes`` ranks in a session of its own."""
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={processes}"]
    command += ["--standalone", str(script), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(job: subprocess.Popen[str], time_limit_s: float = TIME_LIMIT_S) -> tuple[int, str, str]:
    """Wait for the job; kills all of its processes when the limit is over.

    Returns:
        Exit code, stdout, stderr.

    Raises:
        AssertionError: the limit was reached.
    """
    try:
        stdout, stderr = job.communicate(timeout=time_limit_s)
    except subprocess.TimeoutExpired:
        kill(job)
        stdout, stderr = job.communicate()
        raise AssertionError(
            f"the job did not end within {time_limit_s} s\n{stdout}\n{stderr}"
        ) from None
    finally:
        kill(job)
    return job.returncode, stdout, stderr


def kill(job: subprocess.Popen[str]) -> None:
    """End every process of the job."""
    try:
        os.killpg(job.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(processes: int, script: Path | str, *arguments: str, cwd: Path | None = None) -> str:
    """Run a job that must succeed; its stdout."""
    code, stdout, stderr = finish(start(processes, script, *arguments, cwd=cwd))
    assert code == 0, f"exit code {code}\n{stdout}\n{stderr}"
    return stdout
