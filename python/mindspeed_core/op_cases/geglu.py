"""GeGLU, tanh form."""

import torch
from torch import Tensor

from mindspeed_core.op_cases.swiglu import gated_cases


def naive(gate: Tensor, up: Tensor) -> Tensor:
    """The formula, in the dtype of gate."""
    return torch.nn.functional.gelu(gate, approximate="tanh") * up


CASES = gated_cases("geglu", naive)
