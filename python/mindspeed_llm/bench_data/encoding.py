"""Encoding on one core beside gigatoken and fastokens; ids compared with the library that owns each vocabulary."""

import base64
import hashlib
import statistics
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from mindspeed_llm.bench_data.one_core import one_core, read_texts
from mindspeed_llm.data import _data

Texts = list[str]
Encode = Callable[[Texts], Iterable[Any]]  # sequences of ids
WARM_PASSES = 2

# name: (our file, owner, the owner's file, gigatoken's name of the pre-tokeniser)
VOCABULARIES = {
    "gpt2": ("gpt2.tiktoken", "tiktoken", "gpt2.tiktoken", "gpt2"),
    "cl100k": ("cl100k_base.tiktoken", "tiktoken", "cl100k_base.tiktoken", "cl100k"),
    "o200k": ("o200k_base.tiktoken", "tiktoken", "o200k_base.tiktoken", "o200k"),
    "llama3": ("llama3.tiktoken", "tiktoken", "llama3.tiktoken", None),
    "qwen2": ("qwen2.json", "tokenizers", "qwen2.json", None),
    "deepseek": ("deepseek_v4.json", "tokenizers", "deepseek_v4.json", None),
    "mistral": ("mistral_v1.model", "sentencepiece", "mistral_v1.model", None),
}

# as published with the vocabularies; the rank files do not hold them
_CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
EXPRESSIONS = {
    "gpt2.tiktoken": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k_base.tiktoken": _CL100K,
    "llama3.tiktoken": _CL100K,
    "o200k_base.tiktoken": rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDING}"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDING}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}


def measure(folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Rows for each vocabulary of FOLDER/vocab on FOLDER/corpus/{en,zh,code}.jsonl.

    Each round makes every library's tokenizer anew and takes them in turn: the first pass is ``cold``, the best
    of the later ones ``warm``. ``right`` compares the ids with those of the owner, which is timed once.
    """
    rows = []
    with one_core():
        for corpus in ("en", "zh", "code"):
            texts = read_texts(folder, corpus)
            for name in VOCABULARIES:
                rows += _compare(folder, name, corpus, texts, rounds)
    return rows


def _compare(
    folder: Path, name: str, corpus: str, texts: Texts, rounds: int
) -> list[dict[str, Any]]:
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    owner = VOCABULARIES[name][1]
    cold: dict[str, list[float]] = {}
    warm: dict[str, list[float]] = {}
    hashes: dict[str, str] = {}
    for number in range(rounds):
        for library, make in _libraries(folder, name, corpus).items():
            if library == owner and number > 0:
                continue
            encode = make()
            seconds = [_timed(encode, texts) for _ in range(1 + WARM_PASSES * (library != owner))]
            cold.setdefault(library, []).append(seconds[0][0])
            warm.setdefault(library, []).append(min(one for one, _ in seconds[1:] or seconds))
            hashes[library] = _hash(seconds[-1][1])
    return [
        {
            "subject": "encoding",
            "vocabulary": name,
            "corpus": corpus,
            "library": library,
            "megabytes": round(megabytes, 2),
            "cold_mb_per_s": round(megabytes / statistics.median(cold[library]), 1),
            "warm_mb_per_s": round(megabytes / statistics.median(warm[library]), 1),
            "ids": hashes[library],
            "right": hashes[library] == hashes[owner],
        }
        for library in cold
    ]


def _timed(encode: Encode, texts: Texts) -> tuple[float, Iterable[Any]]:
    started = time.perf_counter()
    ids = encode(texts)
    return time.perf_counter() - started, ids


def _hash(sequences: Iterable[Any]) -> str:
    digest = hashlib.blake2b(digest_size=6)
    if type(sequences).__module__.startswith("awkward"):
        sequences = [np.asarray(import_module("awkward").flatten(sequences))]
    for sequence in sequences:
        digest.update(np.asarray(getattr(sequence, "ids", sequence), np.uint32).tobytes())
    return digest.hexdigest()


def _libraries(folder: Path, name: str, corpus: str) -> dict[str, Callable[[], Encode]]:
    """What makes each installed library's encoder of a vocabulary."""
    ours, owner, owners_file, scheme = VOCABULARIES[name]
    vocab = folder / "vocab"
    made: dict[str, Callable[[], Encode]] = {"mindspeed": lambda: _ours(vocab / ours)}
    if find_spec("gigatoken"):
        text = folder / "corpus" / f"{corpus}.txt"
        made["gigatoken"] = lambda: _gigatoken(vocab, name, scheme, text)
    if find_spec("fastokens") and name != "mistral":
        file = "deepseek_v4.json" if name == "deepseek" else f"{name}.json"
        made["fastokens"] = lambda: _fastokens(vocab / file)
    owners = {"tiktoken": _tiktoken, "tokenizers": _tokenizers, "sentencepiece": _sentencepiece}
    made[owner] = lambda: owners[owner](vocab / owners_file)
    return made


def _ours(path: Path) -> Encode:
    tokenizer = _data.Tokenizer.from_file(str(path))
    return lambda texts: [tokenizer.encode_batch(texts, False)[0]]


def _gigatoken(vocab: Path, name: str, scheme: str | None, text: Path) -> Encode:
    gigatoken = import_module("gigatoken")
    if name == "mistral":
        tokenizer = gigatoken.Tokenizer.from_sentencepiece(str(vocab / "mistral_v1.model"))
    elif scheme:
        file = VOCABULARIES[name][0]
        tokenizer = gigatoken.Tokenizer.from_tiktoken(str(vocab / file), pretokenizer=scheme)
    else:  # its reader of rank files fails on Llama 3's
        file = "deepseek_v4.json" if name == "deepseek" else f"{name}.json"
        tokenizer = gigatoken.Tokenizer(str(vocab / file))
    source = gigatoken.TextFileSource([str(text)], separator=b"<|endoftext|>")
    return lambda _: tokenizer.encode_files(source, parallel=False)


def _fastokens(path: Path) -> Encode:
    tokenizer = import_module("fastokens")._native.Tokenizer.from_file(str(path))
    return lambda texts: [tokenizer.encode(text, False) for text in texts]


def _tiktoken(path: Path) -> Encode:
    lines = [line.split() for line in path.read_bytes().splitlines() if line]
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    pattern = EXPRESSIONS[path.name]
    encoding = import_module("tiktoken").Encoding(
        path.name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
    )
    return lambda texts: [encoding.encode_ordinary(text) for text in texts]


def _tokenizers(path: Path) -> Encode:
    tokenizer = import_module("tokenizers").Tokenizer.from_file(str(path))
    return lambda texts: [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def _sentencepiece(path: Path) -> Encode:
    processor = import_module("sentencepiece").SentencePieceProcessor(model_file=str(path))
    return lambda texts: [processor.encode(text) for text in texts]
