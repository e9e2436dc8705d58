"""MindSpeed LLM: pretraining of large language models over the C++ engine.

The names below load on first use, so that ``import mindspeed_llm.data`` and
``mindspeed preprocess`` start without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mindspeed_llm.config import TrainingArguments
    from mindspeed_llm.trainer import Trainer

__all__ = ["Trainer", "TrainingArguments"]
_HOME = {"Trainer": "mindspeed_llm.trainer", "TrainingArguments": "mindspeed_llm.config"}


def __getattr__(name: str) -> Any:
    """Import the module that defines ``name`` when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"module 'mindspeed_llm' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)
