"""Parallelism for any ``nn.Module``."""

from mindspeed_llm.parallel.fsdp_module import FSDPModule

__all__ = ["FSDPModule"]
