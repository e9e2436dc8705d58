"""Hugging Face folders: config.json to and from ModelSpec, safetensors weights in and out.

What differs between model kinds is data (``configs/hugging_face/<model_type>.yaml``).
"""

import json
import shutil
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from mindspeed_llm.config_file import read_config_file
from mindspeed_llm.errors import UserError
from mindspeed_llm.presets import configs_folder

ROTARY_KEYS = {
    "factor": "factor",
    "low_freq_factor": "low_freq_factor",
    "high_freq_factor": "high_freq_factor",
    "original_max_position_embeddings": "original_max_position_embeddings",
}
MAX_SHARD_BYTES = 5 * 1024**3


class CheckpointError(UserError, ValueError):
    """A Hugging Face folder that cannot be read or does not fit the model."""


@cache
def kinds() -> dict[str, dict[str, Any]]:
    """The table of supported kinds by ``model_type``."""
    paths = sorted((configs_folder() / "hugging_face").glob("*.yaml"))
    return {path.stem: read_config_file(path).values for path in paths}


def read_spec(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read ``folder/config.json``.

    Returns:
        The ModelSpec as nested dictionaries, and config.json as it stands.

    Raises:
        CheckpointError: no readable config.json, a model kind or a setting the engine does not have.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text())
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; give a Hugging Face model folder") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from None
    kind = kinds().get(config.get("model_type", ""))
    if kind is None:
        raise CheckpointError(
            f"{path}: model_type {config.get('model_type')!r} is not supported;"
            f" known: {', '.join(kinds())}"
        )
    for key, value in kind["required"].items():
        if config.get(key, value) != value:
            raise CheckpointError(f"{path}: {key} must be {value}, got {config[key]}")
    return _to_spec(config, kind), config


def _to_spec(config: Mapping[str, Any], kind: Mapping[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {"family": kind["family"]}
    for field, key in kind["fields"].items():
        value = config.get(key)
        if value is None:
            value = kind["defaults"].get(key)
        if value is not None:
            _set(spec, field, value)
    attention = spec["attention"]
    attention.setdefault("num_key_value_heads", attention["num_heads"])
    attention.setdefault("head_size", spec["hidden_size"] // attention["num_heads"])
    spec["rotary"] = _rotary(config)
    return spec


def _rotary(config: Mapping[str, Any]) -> dict[str, Any]:
    """Rotary settings from either spelling: ``rope_parameters``, or ``rope_theta``/``rope_scaling``."""
    parameters = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    theta = parameters.get("rope_theta", config.get("rope_theta", 10000.0))
    rotary: dict[str, Any] = {
        "theta": float(theta),
        "scaling": parameters.get("rope_type", parameters.get("type", "default")),
    }
    for field, key in ROTARY_KEYS.items():
        if parameters.get(key) is not None:
            rotary[field] = parameters[key]
    return rotary


def to_config(spec: Mapping[str, Any], original: Mapping[str, Any] | None) -> dict[str, Any]:
    """The config.json that transformers reads for ``spec``; keys of ``original`` that the spec does
    not decide (token ids, say) are kept.
    """
    kind = next(kind for kind in kinds().values() if spec["family"].startswith(kind["family"]))
    config: dict[str, Any] = dict(original or {})
    config.update(architectures=[kind["architecture"]], model_type=kind["model_type"])
    for field, key in kind["fields"].items():
        config[key] = _get(spec, field)
    for old in ("torch_dtype", "transformers_version", "rope_parameters", "rope_scaling"):
        config.pop(old, None)
    rotary = spec["rotary"]
    config.update(dtype="float32", use_cache=True, rope_theta=rotary["theta"])
    if rotary["scaling"] != "default":
        keys = {
            "linear": ("factor",),
            "dynamic": ("factor",),
            "llama3": tuple(ROTARY_KEYS),
        }[rotary["scaling"]]
        config["rope_scaling"] = {
            "rope_type": rotary["scaling"],
            **{ROTARY_KEYS[key]: rotary[key] for key in keys},
        }
    return config


def _set(spec: dict[str, Any], field: str, value: Any) -> None:
    *path, name = field.split(".")
    for part in path:
        spec = spec.setdefault(part, {})
    spec[name] = value


def _get(spec: Mapping[str, Any], field: str) -> Any:
    value: Any = spec
    for part in field.split("."):
        value = value[part]
    return value


def load_weights(folder: Path, parameters: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Copy the folder's weights into ``parameters`` (in place, cast to their dtype).

    Raises:
        CheckpointError: a missing, superfluous or differently shaped tensor, or an unreadable file.
    """
    targets = dict(parameters)
    missing = set(targets)
    for path in _weight_files(folder):
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():
                    target = targets.get(name)
                    if target is None:
                        if _may_be_ignored(name, targets):
                            continue
                        raise CheckpointError(f"{path}: {name} is not a parameter of the model")
                    tensor = file.get_tensor(name)
                    if tensor.shape != target.shape:
                        raise CheckpointError(
                            f"{path}: {name} must have shape {list(target.shape)},"
                            f" got {list(tensor.shape)}"
                        )
                    with torch.no_grad():
                        target.copy_(tensor)
                    missing.discard(name)
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{path}: cannot be read: {error}") from None
    if missing:
        names = sorted(missing)
        raise CheckpointError(
            f"{folder}: the weights lack {len(names)} of the model's parameters, first {names[0]}"
        )


def _may_be_ignored(name: str, targets: Mapping[str, torch.Tensor]) -> bool:
    """Rotary frequencies are recomputed; a tied output layer repeats the embedding."""
    return name.endswith("rotary_emb.inv_freq") or (
        name == "lm_head.weight" and "lm_head.weight" not in targets
    )


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return [
            folder / name
            for name in sorted(set(json.loads(index.read_text())["weight_map"].values()))
        ]
    single = folder / "model.safetensors"
    if single.is_file():
        return [single]
    raise CheckpointError(
        f"{folder}: neither model.safetensors nor model.safetensors.index.json is there"
    )


def save_folder(
    folder: Path, config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]
) -> None:
    """Write config.json and the weights (shards of at most 5 GiB) so that transformers loads them.

    The folder appears complete or not at all: it is written under a temporary name and renamed; an
    existing folder is replaced file by file only after all new files are written.
    """
    temporary = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        (temporary / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
        shards = _cut_into_shards(tensors)
        weight_map: dict[str, str] = {}
        for number, names in enumerate(shards, start=1):
            file = (
                "model.safetensors"
                if len(shards) == 1
                else f"model-{number:05d}-of-{len(shards):05d}.safetensors"
            )
            contents = {name: tensors[name].detach().contiguous().cpu() for name in names}
            save_file(contents, temporary / file, metadata={"format": "pt"})
            weight_map.update(dict.fromkeys(names, file))
        if len(shards) > 1:
            total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
            index = {"metadata": {"total_size": total}, "weight_map": weight_map}
            (temporary / "model.safetensors.index.json").write_text(
                json.dumps(index, indent=2) + "\n"
            )
        if folder.is_dir():
            for path in temporary.iterdir():
                path.replace(folder / path.name)
            temporary.rmdir()
        else:
            temporary.rename(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise CheckpointError(f"{folder}: cannot be written: {error}") from None


def _cut_into_shards(tensors: Mapping[str, torch.Tensor]) -> list[list[str]]:
    shards: list[list[str]] = [[]]
    size = 0
    for name, tensor in tensors.items():
        tensor_bytes = tensor.numel() * tensor.element_size()
        if shards[-1] and size + tensor_bytes > MAX_SHARD_BYTES:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size += tensor_bytes
    return shards
