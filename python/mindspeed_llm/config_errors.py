"""Turns what pydantic found, and keys it does not know, into one line with file, line and cure."""

from difflib import SequenceMatcher
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mindspeed_llm.config_file import ConfigFile, Key
from mindspeed_llm.errors import ConfigError

# Words of other trainers and of Hugging Face that no spelling distance finds.
ELSEWHERE = {
    "learning_rate": "training.lr",
    "global_batch_size": "training.batch_size",
    "train_batch_size": "training.batch_size",
    "per_device_train_batch_size": "training.micro_batch_size",
    "max_grad_norm": "training.clip_norm",
    "max_length": "training.seq_len",
    "rms_norm_eps": "model.norm_eps",
    "head_dim": "model.head_size",
    "tp": "parallel.tensor_parallel",
    "pp": "parallel.pipeline_parallel",
    "train_data": "data.train",
    "save_steps": "training.save_interval",
}
NEAR = 0.6  # similarity from which a name is offered


def section_of(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """The section class behind a field, None for a plain value."""
    field = model.model_fields.get(name)
    kind = field.annotation if field is not None else None
    candidates = [kind, *getattr(kind, "__args__", ())]
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None)


def known_keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Every key under ``model`` as the user writes it, parents before children."""
    keys = []
    for name in model.model_fields:
        keys.append(prefix + name)
        section = section_of(model, name)
        if section is not None:
            keys += known_keys(section, f"{prefix}{name}.")
    return keys


def refuse_unknown_keys(model: type[BaseModel], source: ConfigFile) -> None:
    """Raise ConfigError for the first key of the file that does not exist, naming the nearest."""
    _walk(model, source.values, (), source, known_keys(model))


def _walk(
    model: type[BaseModel], values: dict[str, Any], key: Key, source: ConfigFile, known: list[str]
) -> None:
    for name, value in values.items():
        path: Key = (*key, name)
        if name not in model.model_fields:
            raise ConfigError(
                f"{source.where(path)}: {_dotted(path)} is not a known key{_offer(path, known)}"
            )
        section = section_of(model, name)
        if section is None or value is None:
            continue
        for index, inner in enumerate(value) if isinstance(value, list) else [(None, value)]:
            here = path if index is None else (*path, index)
            if isinstance(inner, dict):
                _walk(section, inner, here, source, known)
            elif len(here) == 1:
                raise ConfigError(
                    f"{source.where(here)}: {name} must be a section of keys, got {_shown(inner)}"
                )


def _offer(path: Key, known: list[str]) -> str:
    name = str(path[-1]).lower()
    if name in ELSEWHERE:
        return f"; did you mean {ELSEWHERE[name]}?"
    parent = _dotted(tuple(part for part in path[:-1] if isinstance(part, str)))

    def nearness(candidate: str) -> float:
        section, _, leaf = candidate.rpartition(".")
        likeness = SequenceMatcher(None, name, leaf).ratio()
        return likeness + (0.1 if section == parent else 0)

    ranked = sorted(known, key=nearness, reverse=True)
    near = [k for k in ranked[:3] if nearness(k) >= max(NEAR, nearness(ranked[0]) - 0.05)]
    if not near:
        return "; `mindspeed info --config` lists the keys"
    choice = near[0] if len(near) == 1 else f"{', '.join(near[:-1])} or {near[-1]}"
    return f"; did you mean {choice}?"


def to_config_error(error: ValidationError, source: ConfigFile) -> ConfigError:
    """The first problem that pydantic found, as one line."""
    details = error.errors()[0]
    key: Key = tuple(details["loc"])
    context = details.get("ctx", {})
    if details["type"] == "across":
        key = tuple(str(context["key"]).split("."))
        return ConfigError(f"{source.where(key)}: {context['text']}")
    if details["type"] == "value_error":  # a sentence of ours that begins with the key
        text = str(context["error"])
        return ConfigError(f"{source.where(tuple(text.split()[0].split('.')))}: {text}")
    return ConfigError(
        f"{source.where(key)}: {_dotted(key)} {_rule(details)}, got {_shown(details['input'])}"
    )


def _shown(value: Any) -> str:
    """The value as YAML writes it."""
    return {True: "true", False: "false", None: "null"}[value] if _is_word(value) else repr(value)


def _is_word(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _rule(details: ErrorDetails) -> str:
    context = details.get("ctx", {})
    bounds = {
        "greater_than_equal": ("at least", "ge"),
        "greater_than": ("greater than", "gt"),
        "less_than_equal": ("at most", "le"),
        "less_than": ("less than", "lt"),
    }
    kind = details["type"]
    if kind in bounds:
        words, name = bounds[kind]
        return f"must be {words} {context[name]:g}"
    if kind == "literal_error":
        return f"must be one of {context['expected']}".replace("'", "")
    if kind == "finite_number":
        return "must be a finite number"
    if kind == "missing":
        return "must be given"
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return "must be a section of keys"
    return details["msg"]


def _dotted(key: Key) -> str:
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
