"""MindSpeed core: fused operators, memory pool and the C++ engine under the training front.

Importing it loads ``libmindspeed`` and so registers every ``torch.ops.mindspeed.*`` operator.
"""

import torch  # noqa: F401  (libmindspeed links against the libtorch that this import loads)

import mindspeed_core._C as _C
from mindspeed_core.patching import patch

__all__ = ["_C", "__version__", "patch"]
__version__ = "0.1.0"
