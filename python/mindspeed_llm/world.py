"""Who this process is among its peers, and the process group that joins them."""

import logging
import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from mindspeed_llm.errors import ConfigError

LEVELS = {
    "0": logging.DEBUG,
    "1": logging.INFO,
    "2": logging.WARNING,
    "3": logging.ERROR,
    "4": logging.CRITICAL + 1,
}
CONNECT_TIMEOUT = "HCCL_CONNECT_TIMEOUT"
LOG_LEVEL = "ASCEND_GLOBAL_LOG_LEVEL"


@dataclass(frozen=True)
class World:
    """The data parallel processes; ``group`` is None when there is only one."""

    rank: int
    size: int
    local_size: int
    host: str
    group: Any

    @property
    def is_first(self) -> bool:
        """True on the process that speaks for all."""
        return self.rank == 0

    def sum(self, numbers: list[int]) -> list[int]:
        """Each number summed over the ranks; a collective."""
        if self.group is None:
            return numbers
        values = torch.tensor(numbers, dtype=torch.int64)
        dist.all_reduce(values, group=self.group)
        return [int(value) for value in values]

    def gather(self, value: Any) -> list[Any]:
        """``value`` of every rank, on every rank; a collective."""
        if self.group is None:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self.group)
        return values


def set_log_level() -> None:
    """Give our logger the level that ASCEND_GLOBAL_LOG_LEVEL names (0 debug .. 4 off).

    Unset: warnings and errors. Progress, plan and closing lines are output rather than logs.

    Raises:
        ConfigError: another value.
    """
    value = os.environ.get(LOG_LEVEL, "2")
    if value not in LEVELS:
        raise ConfigError(f"{LOG_LEVEL} must be 0 (debug) to 4 (off), got {value!r}")
    logger = logging.getLogger("mindspeed")
    logger.setLevel(LEVELS[value])
    if not logger.handlers:
        handler = logging.StreamHandler()
        rank = os.environ.get("RANK", "0")
        handler.setFormatter(
            logging.Formatter(f"mindspeed: %(levelname)s: rank {rank}: %(message)s")
        )
        logger.addHandler(handler)
        logger.propagate = False


def connect_timeout() -> timedelta | None:
    """The process group's time limit from HCCL_CONNECT_TIMEOUT in seconds; None: torch's own.

    Raises:
        ConfigError: not a positive whole number.
    """
    value = os.environ.get(CONNECT_TIMEOUT)
    if value is None:
        return None
    if not value.isdecimal() or int(value) == 0:
        raise ConfigError(f"{CONNECT_TIMEOUT} must be a positive number of seconds, got {value!r}")
    return timedelta(seconds=int(value))


def join_world() -> World:
    """Join the process group that torchrun's environment describes (made at most once).

    Gloo carries CPU tensors; NCCL or HCCL those of the accelerator, when there is one.

    Raises:
        ConfigError: an environment variable that makes no sense, or peers that cannot be reached.
    """
    size, time_limit = int(os.environ.get("WORLD_SIZE", "1")), connect_timeout()
    if size > 1 and not dist.is_initialized():
        missing = [
            name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ
        ]
        if missing:
            raise ConfigError(
                f"WORLD_SIZE is {size} but {', '.join(missing)} is not set; start with torchrun"
            )
        try:
            dist.init_process_group(_backend(), timeout=time_limit)
        except (dist.DistError, RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(
                f"the process group of {size} ranks was not made: {reason}"
            ) from error
    host = socket.gethostname()
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return World(0, 1, 1, host, None)
    size = dist.get_world_size()
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", "0")) or size
    return World(dist.get_rank(), size, local_size, host, dist.group.WORLD)


def _backend() -> str:
    if hasattr(torch, "npu") and torch.npu.is_available():
        return "cpu:gloo,npu:hccl"
    if torch.cuda.is_available() and dist.is_nccl_available():
        return "cpu:gloo,cuda:nccl"
    return "gloo"
