"""Which number type the arithmetic runs in, and why."""

from pathlib import Path
from typing import NamedTuple

import torch

FAST_BF16_FLAGS = ("avx512_bf16", "amx_bf16")


class Precision(NamedTuple):
    """``name`` is fp32, bf16 or fp16; ``reason`` is shown in the plan."""

    name: str
    reason: str

    @property
    def dtype(self) -> torch.dtype:
        """torch's type of that name."""
        return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[self.name]


def choose_precision(asked: str, device: torch.device) -> Precision:
    """What ``training.precision`` means on this machine.

    ``auto`` is bf16 where the machine multiplies it fast, else fp32: emulated bf16 on a CPU is about
    ten times slower than fp32.
    """
    if asked != "auto":
        reason = "asked for"
        if asked != "fp32" and device.type == "cpu" and not cpu_has_fast_bf16():
            reason += "; slow: this CPU has no bf16 or fp16 arithmetic, fp32 is faster"
        return Precision(asked, reason)
    if device.type != "cpu":
        return Precision("bf16", f"auto: {device.type} multiplies bf16 fast")
    if cpu_has_fast_bf16():
        return Precision("bf16", "auto: this CPU has bf16 instructions")
    return Precision("fp32", "auto: this CPU has no bf16 instructions (AVX512-BF16, AMX)")


def cpu_flags() -> frozenset[str]:
    """Instruction set flags of the first core, as Linux names them."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    for line in text.splitlines():
        if line.startswith(("flags", "Features")):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def cpu_has_fast_bf16() -> bool:
    """True with AVX512-BF16, AMX, or Arm's bf16 extension."""
    return bool(cpu_flags() & {*FAST_BF16_FLAGS, "bf16"})
