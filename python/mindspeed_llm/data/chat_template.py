"""Chat templates of Hugging Face folders: messages to the text a chat model was trained on."""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from mindspeed_llm.data._data import DataError

Message = Mapping[str, Any]


class ChatTemplate:
    """A Jinja template, run in a sandbox: it sees the messages, not Python.

    Args:
        source: the template's text.
        special_tokens: ``bos_token``, ``eos_token`` and so on, as the template may name them.
        where: the file it came from, for errors.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str], where: str) -> None:
        import jinja2  # on use: `import mindspeed_llm.data` stays light
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        self._special_tokens, self._where = dict(special_tokens), where
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise DataError(
                f"{where}: chat_template must be a Jinja template, got: {error}"
            ) from None

    @classmethod
    def from_folder(cls, folder: str | os.PathLike[str], name: str = "default") -> "ChatTemplate":
        """The template of a Hugging Face folder: chat_template.jinja, or in tokenizer_config.json.

        Args:
            folder: where the files are.
            name: which one, where tokenizer_config.json holds several.

        Raises:
            DataError: there is none, or none of that name.
        """
        path = Path(folder) / "tokenizer_config.json"
        try:
            config = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        except ValueError as error:
            raise DataError(f"{path}: must be JSON, got: {error}") from None
        tokens = {
            key: value["content"] if isinstance(value, dict) else value
            for key, value in config.items()
            if key.endswith("_token") and isinstance(value, str | dict)
        }
        own_file = Path(folder) / "chat_template.jinja"
        if name == "default" and own_file.exists():
            return cls(own_file.read_text(encoding="utf-8"), tokens, str(own_file))
        source = config.get("chat_template")
        if isinstance(source, list):
            named = {one["name"]: one["template"] for one in source}
            if name not in named:
                raise DataError(
                    f"{path}: chat_template must have one named {name}, got {', '.join(named)}"
                )
            source = named[name]
        elif name != "default":
            source = None
        if source is None:
            raise DataError(
                f"{folder}: a chat needs a chat_template.jinja, or chat_template in "
                f"tokenizer_config.json, got no template named {name}; is this a base model?"
            )
        return cls(source, tokens, str(path))

    def render(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool = False,
        **variables: Any,
    ) -> str:
        """Text of a conversation.

        Args:
            messages: ``{"role": ..., "content": ...}`` each, and what else the template reads.
            add_generation_prompt: end with what begins the assistant's turn.
            **variables: others that the template reads (``tools``, ``enable_thinking``).

        Raises:
            DataError: the template refuses the messages or reads what is not there.
        """
        import jinja2

        try:
            return self._template.render(
                messages=messages,
                add_generation_prompt=add_generation_prompt,
                **{"tools": None, "documents": None, **self._special_tokens, **variables},
            )
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise DataError(
                f"{self._where}: the chat template does not take these messages: {error}"
            ) from None


def _to_json(value: Any, indent: int | None = None, **_: Any) -> str:
    # Jinja's own filter escapes for HTML, which chat models were not trained on.
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(message)
