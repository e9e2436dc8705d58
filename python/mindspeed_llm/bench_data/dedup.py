"""Deduplication beside datasketch and rensa: MB/s of one core, and what it finds of planted copies."""

import random
import tempfile
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from mindspeed_llm.bench_data.one_core import interleave, one_core, read_texts
from mindspeed_llm.data import _data

PEER_MEGABYTES = 4.0  # of text: enough for libraries that do a few MB/s
THRESHOLD = 0.8


def measure(folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Rows for exact, near and substring deduplication of FOLDER/corpus/{en,zh,code}.jsonl."""
    rows = []
    with one_core():
        for corpus in ("en", "zh", "code"):
            texts = read_texts(folder, corpus)
            for row in interleave(_contestants(texts), rounds):
                rows.append({"subject": "dedup", "corpus": corpus, **row})
    rows.append({"subject": "dedup", "corpus": "planted", **_planted(read_texts(folder, "en"))})
    return rows


def _contestants(texts: list[str]) -> dict[str, tuple[float, Callable[[], Any]]]:
    encoded = [text.encode() for text in texts]
    megabytes = sum(map(len, encoded)) / 1e6
    some = texts[: max(1, int(len(texts) * PEER_MEGABYTES / megabytes))]
    megabytes_of_some = sum(len(text.encode()) for text in some) / 1e6
    contestants: dict[str, tuple[float, Callable[[], Any]]] = {
        "mindspeed exact": (megabytes, lambda: _ours(encoded, near=False)),
        "mindspeed near": (megabytes, lambda: _ours(encoded, near=True)),
        "mindspeed substring": (megabytes, lambda: _substrings(encoded)),
    }
    for name, peer in {"datasketch near": _datasketch, "rensa near": _rensa}.items():
        if find_spec(name.split()[0]):
            contestants[name] = (megabytes_of_some, partial(peer, some))
    return contestants


def _ours(texts: list[bytes], near: bool) -> list[str]:
    with tempfile.TemporaryDirectory() as scratch:
        dedup = _data.DedupFilter(scratch, near=near, near_threshold=THRESHOLD)
        dedup.apply_batch(texts)
        dedup.decide()
        return list(dedup.apply_batch(texts))


def _substrings(texts: list[bytes]) -> list[str]:
    with tempfile.TemporaryDirectory() as scratch:
        dedup = _data.SubstringFilter(scratch)
        dedup.apply_batch(texts)
        dedup.decide()
        return list(dedup.apply_batch(texts))


def _shingles(text: str) -> set[str]:
    words = text.lower().split()
    return {" ".join(words[i : i + 5]) for i in range(max(1, len(words) - 4))}


def _datasketch(texts: list[str]) -> int:
    datasketch = import_module("datasketch")
    index = datasketch.MinHashLSH(threshold=THRESHOLD, num_perm=128)
    kept = 0
    for number, text in enumerate(texts):
        signature = datasketch.MinHash(num_perm=128)
        signature.update_batch([shingle.encode() for shingle in _shingles(text)])
        if not index.query(signature):
            index.insert(number, signature)
            kept += 1
    return kept


def _rensa(texts: list[str]) -> int:
    rensa = import_module("rensa")
    index = rensa.RMinHashLSH(threshold=THRESHOLD, num_perm=128, num_bands=16)
    kept = 0
    for number, text in enumerate(texts):
        signature = rensa.RMinHash(num_perm=128, seed=1)
        signature.update(list(_shingles(text)))
        if not index.query(signature):
            index.insert(number, signature)
            kept += 1
    return kept


def _planted(documents: list[str]) -> dict[str, Any]:
    """Recall by true Jaccard similarity, and precision, over copies with some words replaced."""
    pick = random.Random(1)
    texts, similarity = [], []
    for document in documents:
        words = ["".join(filter(str.isalnum, word)) for word in document.lower().split()[:400]]
        words = [word for word in words if word.isascii() and word]
        if len(words) < 50:
            continue
        rate = pick.choice([0.002, 0.005, 0.01, 0.02, 0.03, 0.05])
        copy = [f"z{pick.randrange(10**9)}" if pick.random() < rate else word for word in words]
        texts += [" ".join(words), " ".join(copy)]
        a, b = _shingles(texts[-2]), _shingles(texts[-1])
        similarity.append(len(a & b) / len(a | b))
    dropped = np.array(_ours([text.encode() for text in texts], near=True)[1::2]) != ""
    of_pair = np.array(similarity)

    def share(hits: np.ndarray) -> float | None:
        """The share that is true, None of nothing: a corpus may have no pair that similar."""
        return round(float(hits.mean()), 4) if hits.size else None

    def recall(low: float, high: float) -> float | None:
        return share(dropped[(of_pair >= low) & (of_pair < high)])

    return {
        "library": "mindspeed near",
        "pairs": len(similarity),
        "threshold": THRESHOLD,
        "recall_from_0.9": recall(0.9, 2),
        "recall_0.8_to_0.9": recall(0.8, 0.9),
        "dropped_0.7_to_0.8": recall(0.7, 0.8),
        "dropped_below_0.7": recall(0, 0.7),
        "precision_at_0.7": share(of_pair[dropped] >= 0.7),
        "precision_at_0.8": share(of_pair[dropped] >= 0.8),
    }
