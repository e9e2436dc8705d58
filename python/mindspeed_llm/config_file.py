"""Reading a YAML file together with the line of every key, and applying ``section.key=value``.

YAML 1.2 through ruamel.yaml: ``3e-4`` is a number, ``yes`` is a word.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from mindspeed_llm.errors import ConfigError

Key = tuple[str | int, ...]


class ConfigFile:
    """The values of a file (nested dicts) and where each of them was written."""

    def __init__(self, name: str, values: dict[str, Any], lines: dict[Key, str]) -> None:
        self.name = name
        self.values = values
        self._lines = lines

    def where(self, key: Key) -> str:
        """``FILE:LINE`` of the key or of its nearest parent; ``command line`` for an override."""
        for length in range(len(key), 0, -1):
            if key[:length] in self._lines:
                return self._lines[key[:length]]
        return self.name

    def override(self, assignments: Iterable[str]) -> None:
        """Apply ``section.key=value`` texts; values are read as YAML.

        Raises:
            ConfigError: a text without ``=`` or a value that is not YAML.
        """
        for text in assignments:
            name, equals, value = text.partition("=")
            if not equals or not name.strip():
                raise ConfigError(
                    f"command line: an override must be section.key=value, got {text!r}"
                )
            key: Key = tuple(name.strip().split("."))
            target = self.values
            for part in key[:-1]:
                inner = target.get(str(part))
                if not isinstance(inner, dict):
                    inner = target[str(part)] = {}
                target = inner
            target[str(key[-1])] = _plain(_load(value, "command line"), (), "", {})
            for length in range(1, len(key)):
                self._lines.setdefault(key[:length], "command line")
            self._lines[key] = "command line"


def read_config_file(path: str | Path) -> ConfigFile:
    """Read a YAML mapping.

    Raises:
        ConfigError: the file is missing, is not YAML, repeats a key or is not a mapping.
    """
    name = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{name}: no such configuration file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}: cannot be read: {error}") from None
    tree = _load(text, name)
    if tree is None:
        tree = CommentedMap()
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{name}: the file must hold `section: {{key: value}}`, got {tree!r}")
    lines: dict[Key, str] = {}
    return ConfigFile(name, _plain(tree, (), name, lines), lines)


def write_config_file(path: Path, values: dict[str, Any]) -> None:
    """Write nested dicts as YAML."""
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.dump(values, path)


def _load(text: str, name: str) -> Any:
    try:
        return YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        problem = str(error.problem).splitlines()[0]
        raise ConfigError(f"{name}{line}: not valid YAML: {problem}") from None
    except YAMLError as error:
        raise ConfigError(f"{name}: not valid YAML: {' '.join(str(error).split())}") from None


def _plain(value: Any, key: Key, name: str, lines: dict[Key, str]) -> Any:
    """Turn ruamel's annotated containers and scalars into plain ones, noting each key's line."""
    if isinstance(value, CommentedMap):
        for inner in value:
            lines[(*key, str(inner))] = f"{name}:{value.lc.key(inner)[0] + 1}"
        return {str(k): _plain(v, (*key, str(k)), name, lines) for k, v in value.items()}
    if isinstance(value, CommentedSeq):
        for index in range(len(value)):
            lines[(*key, index)] = f"{name}:{value.lc.item(index)[0] + 1}"
        return [_plain(v, (*key, index), name, lines) for index, v in enumerate(value)]
    if isinstance(value, bool) or value is None:
        return value
    for kind in (int, float, str):  # ruamel's ScalarInt, ScalarFloat, quoted strings
        if isinstance(value, kind):
            return kind(value)
    return value
