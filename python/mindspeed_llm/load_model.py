"""A model from whatever a user may point at: a run, one of its checkpoints, a Hugging Face folder."""

import json
from pathlib import Path

import torch

from mindspeed_core import _C
from mindspeed_llm.errors import ConfigError
from mindspeed_llm.models import AutoModelForCausalLM
from mindspeed_llm.models.causal_lm import CausalLM
from mindspeed_llm.run_checkpoint import newest_checkpoint, open_checkpoint


def load_model(folder: Path) -> CausalLM:
    """The model of ``folder`` in float32.

    Raises:
        ConfigError: nothing there that can be loaded.
    """
    if (folder / "config.json").is_file():
        return AutoModelForCausalLM.from_pretrained(folder)
    return load_checkpoint(find_checkpoint(folder))


def find_checkpoint(folder: Path) -> Path:
    """``folder`` itself when it is a checkpoint, else the newest good one of the run.

    Raises:
        ConfigError: there is none.
    """
    if (folder / "index.json").is_file():
        return folder
    newest, rejected = newest_checkpoint(folder)
    if newest is None:
        reasons = f" ({'; '.join(rejected)})" if rejected else ""
        raise ConfigError(
            f"{folder} must be a run's output folder, a checkpoint or a Hugging Face folder; it"
            f" holds no good checkpoint{reasons}"
        )
    return newest


def load_checkpoint(folder: Path) -> CausalLM:
    """The model of a checkpoint; its weights are put together from all shards."""
    reader = open_checkpoint(folder)
    spec = json.loads(reader.state_json)["spec"]
    model = CausalLM(_C.CausalLM(json.dumps(spec)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(reader.read(name))
    return model
