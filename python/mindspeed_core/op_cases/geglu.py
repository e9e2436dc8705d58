"""GeGLU."""

import torch
from torch import Tensor

from mindspeed_core.op_cases.swiglu import gated_cases


def naive(gate: Tensor, up: Tensor, approximate: str = "tanh") -> Tensor:
    """The formula, in the dtype of gate."""
    return torch.nn.functional.gelu(gate, approximate=approximate) * up


CASES = gated_cases("geglu", naive, forms=("tanh", "none"))
