"""The folder that a run writes into, and the checkpoint that it begins from."""

import tempfile
from pathlib import Path

from mindspeed_llm.config import TrainingArguments
from mindspeed_llm.errors import ConfigError
from mindspeed_llm.run_checkpoint import newest_checkpoint, open_checkpoint

LEFT_BY_A_RUN = ("checkpoints", "metrics.jsonl", "tensorboard", "report.html", "config.yaml")


def prepare_output_folder(args: TrainingArguments) -> Path:
    """Make the folder and prove that it can be written.

    Raises:
        ConfigError: it cannot.
    """
    folder = Path(args.training.output_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"{args.where('training.output_dir')} must be a folder that can be written, got"
            f" {str(folder)!r}: {error.strerror}"
        ) from None
    return folder


def starting_checkpoint(args: TrainingArguments, folder: Path) -> tuple[Path | None, list[str]]:
    """The verified checkpoint to begin from (None: fresh weights), and what to tell the user.

    Raises:
        ConfigError: the one that was asked for is missing or damaged, or all of the folder's are.
    """
    resume = args.training.resume
    if resume == "never":
        return None, _set_aside(folder)
    if resume == "auto":
        path, rejected = newest_checkpoint(folder)
        if path is None and rejected:
            raise ConfigError(
                f"{args.where('training.resume')}: no checkpoint of {folder} is good:"
                f" {'; '.join(rejected)}; to start anew set training.resume: never"
            )
        return path, [f"passed over {reason}" for reason in rejected]
    return _named_checkpoint(args, Path(resume))


def _named_checkpoint(args: TrainingArguments, path: Path) -> tuple[Path, list[str]]:
    if (path / "index.json").is_file():
        try:
            open_checkpoint(path)
        except RuntimeError as error:
            raise ConfigError(f"{args.where('training.resume')}: {error}") from None
        return path, []
    found, rejected = newest_checkpoint(path)
    if found is None:
        reasons = f" ({'; '.join(rejected)})" if rejected else ""
        raise ConfigError(
            f"{args.where('training.resume')} must be auto, never or a checkpoint's folder, got"
            f" {str(path)!r}, which holds no good checkpoint{reasons}"
        )
    return found, [f"passed over {reason}" for reason in rejected]


def _set_aside(folder: Path) -> list[str]:
    """Move what an earlier run left, so that steps and checkpoints of two runs never mix."""
    left = [folder / name for name in LEFT_BY_A_RUN if (folder / name).exists()]
    if not left:
        return []
    number = 1
    while (aside := folder / f"earlier-{number}").exists():
        number += 1
    aside.mkdir()
    for path in left:
        path.rename(aside / path.name)
    return [f"what an earlier run left is now in {aside}"]
