"""The rate that MFU is a share of: a GEMM measured here on a CPU, the maker's figure on a known accelerator."""

import time
from typing import NamedTuple

import torch

from mindspeed_llm.precision import Precision

# Dense bf16 / fp16 matrix rates in TFLOP/s from the makers' data sheets.
ACCELERATORS = {
    "A100": 312.0,
    "H100 PCIe": 756.0,
    "H100": 989.0,
    "H200": 989.0,
    "B200": 2250.0,
    "L40S": 362.0,
    "A10": 125.0,
    "4090": 165.0,
    "Ascend910B": 376.0,
}
MEASURE_S = 0.2
SIZE = 1024


class PeakRate(NamedTuple):
    """FLOP/s of one process (None: unknown, then there is no MFU) and where the figure is from."""

    flops: float | None
    source: str


def peak_rate(device: torch.device, precision: Precision) -> PeakRate:
    """The peak of ``device`` in this precision."""
    if device.type == "cpu":
        return _measured(precision)
    name = torch.get_device_module(device).get_device_name(device)
    if precision.name != "fp32":
        for key, tera in ACCELERATORS.items():
            if key.lower() in name.lower():
                return PeakRate(tera * 1e12, f"{name}'s data sheet, {precision.name}")
    return PeakRate(None, f"the peak of {name} in {precision.name} is not known")


def _measured(precision: Precision) -> PeakRate:
    a, b = (torch.full((SIZE, SIZE), 0.5, dtype=precision.dtype) for _ in range(2))
    torch.mm(a, b)
    best, end = float("inf"), time.perf_counter() + MEASURE_S
    while (start := time.perf_counter()) < end:
        torch.mm(a, b)
        best = min(best, time.perf_counter() - start)
    rate = 2 * SIZE**3 / best
    threads = torch.get_num_threads()
    return PeakRate(
        rate,
        f"GEMM {SIZE}^3 {precision.name} measured at start: {rate / 1e12:.3f} TFLOP/s"
        f" on {threads} thread{'s' if threads > 1 else ''}",
    )
