"""``mindspeed convert``: a checkpoint to a Hugging Face folder, or the other way round."""

import argparse
import json
import shutil
from pathlib import Path

from mindspeed_core import _C
from mindspeed_llm.errors import ConfigError, TrainingError
from mindspeed_llm.load_model import find_checkpoint, load_checkpoint
from mindspeed_llm.models import AutoModelForCausalLM


def main(argv: list[str]) -> int:
    """Entry of ``mindspeed convert``."""
    parser = argparse.ArgumentParser(prog="mindspeed convert", description=__doc__)
    parser.add_argument("source", type=Path, help="Hugging Face folder, checkpoint or run folder")
    parser.add_argument("target", type=Path, help="folder to write; must not exist or be empty")
    parsed = parser.parse_args(argv)
    source, target = parsed.source, parsed.target
    if target.exists() and any(target.iterdir()):
        raise ConfigError(f"{target} must be empty or not exist; choose another folder")
    if (source / "config.json").is_file():
        to_checkpoint(source, target)
        print(f"checkpoint of step 0 in {target / 'checkpoints' / 'step_00000000'}")
    else:
        to_hugging_face(find_checkpoint(source), target)
        print(f"Hugging Face folder in {target}")
    return 0


def to_hugging_face(checkpoint: Path, target: Path) -> None:
    """Export weights, config.json and, where the run kept one, tokenizer.json."""
    load_checkpoint(checkpoint).save_pretrained(target)
    for place in (checkpoint, *checkpoint.resolve().parents[:2]):
        if (place / "tokenizer.json").is_file():
            shutil.copyfile(place / "tokenizer.json", target / "tokenizer.json")
            return


def to_checkpoint(source: Path, target: Path) -> None:
    """Weights of a Hugging Face folder as ``TARGET/checkpoints/step_00000000``.

    Raises:
        TrainingError: it cannot be written.
    """
    model = AutoModelForCausalLM.from_pretrained(source)
    tensors = {name: tensor.detach() for name, tensor in model.named_parameters()}
    shards = {name: (list(t.shape), [0] * t.dim()) for name, t in tensors.items()}
    state = {"format": 1, "step": 0, "samples": 0, "spec": model.spec, "unsplit": []}
    try:
        writer = _C.CheckpointWriter(str(target / "checkpoints"), 1, 0, 1)
        writer.save(0, tensors, shards, json.dumps(state), False)
    except RuntimeError as error:
        raise TrainingError(str(error).splitlines()[0]) from None
    if (source / "tokenizer.json").is_file():
        shutil.copyfile(source / "tokenizer.json", target / "tokenizer.json")
