"""Vocabularies of the published formats: text to token ids and back."""

import os
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mindspeed_llm.data import _data
from mindspeed_llm.data.chat_template import ChatTemplate, Message


class Tokenizer:
    """Text to token ids and back; any bytes survive the way there and back.

    The texts of special tokens (``<|endoftext|>``) are plain text unless ``parse_special`` is asked for;
    nothing is put before or after the text.
    """

    def __init__(self, core: _data.Tokenizer, folder: str | os.PathLike[str] | None = None) -> None:
        self._core, self._folder = core, folder

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "Tokenizer":
        """Load a vocabulary file; its content decides the format (docs/data/tokenizers.md).

        tokenizer.json, vocab.json (merges.txt beside it), .tiktoken, tokenizer.model (SentencePiece, or
        Llama 3's rank file), tekken.json.

        Raises:
            DataError: the file is missing or broken, or asks for something that is not done here, by name.
        """
        path = Path(path)
        folder = path if path.is_dir() else path.parent
        return cls(_data.Tokenizer.from_file(os.fspath(path)), folder)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> "Tokenizer":
        """Load the vocabulary of a Hugging Face folder; its tokenizer_config.json names bos, eos, chat template."""
        return cls.from_file(folder)

    def render_chat(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool = False,
        template: str = "default",
        **variables: Any,
    ) -> str:
        """Text of a conversation by the folder's chat template (:meth:`ChatTemplate.render`).

        Raises:
            DataError: the folder has no such template, or it refuses the messages.
        """
        if self._folder is None:
            raise _data.DataError("render_chat: the tokenizer must be loaded from a folder")
        chat = ChatTemplate.from_folder(self._folder, template)
        return chat.render(messages, add_generation_prompt, **variables)

    def encode_chat(self, messages: Sequence[Message], **options: Any) -> list[int]:
        """Token ids of a conversation; ``options`` as for :meth:`render_chat`.

        Special tokens become tokens, also where a message's text spells one.
        """
        return self.encode(self.render_chat(messages, **options), parse_special=True)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a tokenizer.json that the ``tokenizers`` library loads and that encodes identically.

        Raises:
            DataError: the vocabulary is not byte-level BPE.
        """
        self._core.save(os.fspath(path))

    def encode(self, text: str | bytes, parse_special: bool = False) -> list[int]:
        """Token ids of a text (str, or bytes that need not be UTF-8)."""
        return self._core.encode(text, parse_special)

    def encode_batch(
        self, texts: Iterable[str | bytes], parse_special: bool = False
    ) -> list[npt.NDArray[np.uint32]]:
        """Token ids of each text, as arrays (views of one buffer)."""
        ids, starts = self._core.encode_batch(list(texts), parse_special)
        cuts = starts.tolist()
        return [ids[a:b] for a, b in pairwise(cuts)]

    def decode(
        self, ids: Sequence[int] | npt.NDArray[np.integer], skip_special_tokens: bool = True
    ) -> str:
        """Text of token ids; bytes that are no UTF-8 become U+FFFD.

        Raises:
            DataError: an id outside the vocabulary.
        """
        return self.decode_bytes(ids, skip_special_tokens).decode("utf-8", "replace")

    def decode_bytes(
        self, ids: Sequence[int] | npt.NDArray[np.integer], skip_special_tokens: bool = True
    ) -> bytes:
        """Bytes of token ids."""
        return self._core.decode(np.asarray(ids, dtype=np.int64), skip_special_tokens)

    def token_to_id(self, token: str) -> int | None:
        """Id of a token given by its own text (not in the byte alphabet); None if there is none."""
        return self._core.id_of(token)

    @property
    def vocab_size(self) -> int:
        """Largest id + 1, special tokens included."""
        return self._core.vocab_size

    @property
    def bos_token_id(self) -> int | None:
        """Id of the token that begins a text, if the vocabulary has one."""
        return self._core.bos_id

    @property
    def eos_token_id(self) -> int | None:
        """Id of the token that ends a document, if the vocabulary has one."""
        return self._core.eos_id

    def __len__(self) -> int:
        return self.vocab_size
