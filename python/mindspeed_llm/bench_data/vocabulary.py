"""Training of a byte-level BPE vocabulary beside tokenizers' trainer: one core, the same texts and merges."""

import json
import tempfile
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from mindspeed_llm.bench_data.one_core import interleave, one_core, read_texts
from mindspeed_llm.data import _data

VOCAB_SIZE = 32000
END_OF_TEXT = "<|endoftext|>"


def measure(folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Rows for FOLDER/corpus/{en,zh,code}.jsonl; ``same_merges`` compares the two vocabularies."""
    rows = []
    with one_core(), tempfile.TemporaryDirectory() as scratch:
        for corpus in ("en", "zh", "code"):
            path = folder / "corpus" / f"{corpus}.jsonl"
            texts = read_texts(folder, corpus)
            megabytes = sum(len(text.encode()) for text in texts) / 1e6
            ours, theirs = Path(scratch) / "ours.json", Path(scratch) / "theirs.json"
            contestants = {
                "mindspeed": (megabytes, partial(_ours, path, ours)),
                "tokenizers": (megabytes, partial(_tokenizers, texts, theirs)),
            }
            for row in interleave(contestants, rounds):
                row["same_merges"] = _merges(ours) == _merges(theirs)
                rows.append({"subject": "vocabulary", "corpus": corpus, **row})
    return rows


def _ours(path: Path, output: Path) -> None:
    """Reads and parses the file too, which the peer is spared."""
    options = _data.InputOptions([path], ["text"], 1, "file", 1 << 30, False, None)
    _data.train_tokenizer(options, VOCAB_SIZE, [END_OF_TEXT]).save(output)


def _tokenizers(texts: list[str], output: Path) -> None:
    tokenizers = import_module("tokenizers")
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        min_frequency=2,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(output))


def _merges(path: Path) -> list[list[str]]:
    return [list(pair) for pair in json.loads(path.read_text())["model"]["merges"]]
