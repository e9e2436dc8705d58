"""Optimizers over the fused operators, each a ``torch.optim.Optimizer``: param groups, schedulers, state_dict.

All keep float32 master weights of bfloat16 and float16 parameters, and give the same result on any number of threads
(Muon's GEMMs are ATen's and follow its rules).
"""

from mindspeed_core.optimizers.adamw import AdamW
from mindspeed_core.optimizers.adamw_8bit import AdamW8bit
from mindspeed_core.optimizers.fused_optimizer import FusedOptimizer
from mindspeed_core.optimizers.lion import Lion
from mindspeed_core.optimizers.muon import Muon

__all__ = ["AdamW", "AdamW8bit", "FusedOptimizer", "Lion", "Muon"]
