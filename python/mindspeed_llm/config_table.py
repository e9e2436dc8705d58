"""The table of every configuration key, made from the fields' docstrings.

``python -m mindspeed_llm.config_table > docs/configuration.md`` writes the page.
"""

from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from mindspeed_llm.config import TrainingArguments
from mindspeed_llm.config_errors import section_of

HEAD = """# Configuration keys

Made by `python -m mindspeed_llm.config_table > docs/configuration.md` from the docstrings in
`python/mindspeed_llm/config.py`. An unknown key or a wrong type is an error that names file and line.
"""


def config_table() -> str:
    """Markdown: a section a table, a key a row with its default."""
    parts = [HEAD]
    for name in TrainingArguments.model_fields:
        section = section_of(TrainingArguments, name)
        assert section is not None
        parts.append(f"\n## {name}\n\n{' '.join((section.__doc__ or '').split())}\n")
        parts.append("| key | default | meaning |\n|---|---|---|")
        parts += [
            f"| `{key}` | {default} | {text} |" for key, default, text in _rows(section, name)
        ]
    return "\n".join(parts)


def _rows(section: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in section.model_fields.items():
        yield f"{prefix}.{name}", _default(field), field.description or ""
        inner = section_of(section, name)
        if inner is not None:
            many = "[n]" if "list" in str(field.annotation) else ""
            yield from _rows(inner, f"{prefix}.{name}{many}")


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required" if field.is_required() else "none"
    value = field.default
    text = {None: "null", True: "true", False: "false"}[value] if _is_word(value) else f"{value}"
    return f"`{text}`"


def _is_word(value: object) -> bool:
    return value is None or isinstance(value, bool)


if __name__ == "__main__":
    print(config_table())
