"""Language models over the C++ engine, exchanged with Hugging Face folders."""

from mindspeed_llm.models.auto_model import AutoModelForCausalLM
from mindspeed_llm.models.causal_lm import CausalLM, CausalLMOutput

__all__ = ["AutoModelForCausalLM", "CausalLM", "CausalLMOutput"]
