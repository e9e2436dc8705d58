"""Model families and published sizes: YAML files in ``configs/``, data rather than code."""

from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from mindspeed_llm.config_file import read_config_file
from mindspeed_llm.errors import ConfigError


@cache
def configs_folder() -> Path:
    """The folder with ``families/`` and ``models/``: in the installed package or the repository."""
    here = Path(__file__).resolve().parent
    for folder in (here.parents[1] / "configs", here / "configs"):
        if (folder / "models").is_dir():
            return folder
    raise ConfigError(f"{here / 'configs'}: the model presets are missing; install mindspeed again")


def model_types() -> list[str]:
    """Every name that ``model.type`` takes: families first, then presets."""
    return [
        path.stem
        for folder in ("families", "models")
        for path in sorted((configs_folder() / folder).glob("*.yaml"))
    ]


def preset_values(model_type: str) -> dict[str, Any]:
    """The family's defaults, overlaid by the preset's values when ``model_type`` names one.

    The answer's ``type`` is always the family.

    Raises:
        ConfigError: no such family or preset; the message names the nearest ones.
    """
    preset = configs_folder() / "models" / f"{model_type}.yaml"
    if preset.is_file():
        own = read_config_file(preset).values
        return {**preset_values(own["type"]), **own}
    family = configs_folder() / "families" / f"{model_type}.yaml"
    if family.is_file():
        return {**read_config_file(family).values["defaults"], "type": model_type}
    known = model_types()
    near = get_close_matches(model_type, known, n=3, cutoff=0.4) or known
    raise ConfigError(
        f"model.type must name a family or a preset, got {model_type!r};"
        f" did you mean {_either(near)}?"
    )


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
