"""``AutoModelForCausalLM``: builds a model from a configuration, a Hugging Face folder or a preset."""

import json
import os
from pathlib import Path
from typing import Any

import torch

from mindspeed_core import _C
from mindspeed_llm.errors import ConfigError
from mindspeed_llm.models import hugging_face
from mindspeed_llm.models.causal_lm import CausalLM

DEFAULT_SEED = 1234


class AutoModelForCausalLM:
    """Makes ``CausalLM`` models; never instantiated itself."""

    @staticmethod
    def from_config(
        config: Any,
        parallel_config: Any = None,
        use_flash_attention: bool = True,
        seed: int | None = None,
    ) -> CausalLM:
        """A model with fresh weights, this rank's part of it.

        Args:
            config: the ``model`` section of ``TrainingArguments``.
            parallel_config: its ``parallel`` section; None: everything on this rank.
            use_flash_attention: must be True; the engine has no other attention.
            seed: of the initial weights; default: the configuration's seed, else 1234.

        Built under ``torch.device("meta")`` the parameters have shapes and no storage.

        Raises:
            ConfigError: a layout that does not fit the number of processes, or no such kernel.
        """
        if not (use_flash_attention and getattr(config, "use_flash_attention", True)):
            raise ConfigError(
                "model.use_flash_attention must be true, got false: the engine never builds the"
                " sequence x sequence matrix; leave the key out"
            )
        if seed is None:
            seed = getattr(config, "seed", None)
        layout = layout_of(parallel_config)
        return CausalLM(_build(config.to_spec(), DEFAULT_SEED if seed is None else seed, layout))

    @staticmethod
    def from_pretrained(folder: str | Path) -> CausalLM:
        """A model with the weights of a Hugging Face folder, cast to float32.

        Raises:
            CheckpointError: the folder cannot be read or holds a model the engine does not have.
        """
        spec, config = hugging_face.read_spec(Path(folder))
        model = CausalLM(_build(spec, DEFAULT_SEED, {}), config)
        hugging_face.load_weights(Path(folder), model.engine.named_parameters())
        return model


def _build(spec: dict[str, Any], seed: int, layout: dict[str, int]) -> Any:
    device = torch.get_default_device()
    try:
        return _C.CausalLM(json.dumps(spec), str(device), seed, layout)
    except ValueError as error:
        raise ConfigError(f"model: {str(error).splitlines()[0]}") from None


def layout_of(parallel_config: Any) -> dict[str, int]:
    """Where this process stands on the tensor and pipeline axes.

    Ranks are ordered with the tensor axis innermost and the pipeline axis outermost, so that tensor
    parallel neighbours share a host.

    Raises:
        ConfigError: the layout needs a multiple of more processes than there are.
    """
    tensor = getattr(parallel_config, "tensor_parallel", 1)
    pipeline = getattr(parallel_config, "pipeline_parallel", 1)
    needed = tensor * pipeline
    if needed == 1:
        return {}
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    if world_size == 1 and torch.get_default_device().type == "meta":
        world_size = needed
    if world_size % needed != 0:
        raise ConfigError(
            f"parallel.tensor_parallel ({tensor}) x parallel.pipeline_parallel ({pipeline}) must"
            f" divide the number of processes, got {world_size}; start with"
            f" torchrun --nproc_per_node={needed}"
        )
    return {
        "tensor_size": tensor,
        "tensor_rank": rank % tensor,
        "pipeline_size": pipeline,
        "pipeline_rank": rank // (world_size // pipeline),
    }
