"""What several tests share: a tiny tokenised corpus and a configuration that trains on it in seconds."""

import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
VOCABULARY = 64
# subprocesses find the packages where pytest found them
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(REPOSITORY / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
)


def write_corpus(prefix: Path, documents: list[np.ndarray]) -> Path:
    """Write token documents as PREFIX.bin and PREFIX.idx in Megatron's layout (int32 tokens)."""
    lengths = np.array([len(document) for document in documents], dtype=np.int32)
    pointers = np.concatenate([[0], np.cumsum(lengths[:-1], dtype=np.int64) * 4])[: len(lengths)]
    with prefix.with_name(prefix.name + ".bin").open("wb") as tokens:
        for document in documents:
            tokens.write(document.astype(np.int32).tobytes())
    with prefix.with_name(prefix.name + ".idx").open("wb") as index:
        index.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 4, len(lengths), len(lengths) + 1))
        index.write(lengths.tobytes() + pointers.astype(np.int64).tobytes())
        index.write(np.arange(len(lengths) + 1, dtype=np.int64).tobytes())
    return prefix


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prefix of a corpus of 300 documents whose tokens count up from a random start."""
    random = np.random.default_rng(7)
    documents = [
        (random.integers(VOCABULARY) + np.arange(random.integers(5, 90))) % VOCABULARY
        for _ in range(300)
    ]
    return write_corpus(tmp_path_factory.mktemp("corpus") / "counting", documents)


@pytest.fixture
def config(tmp_path: Path, corpus: Path) -> Path:
    """A YAML file (read as JSON, which YAML contains) of a tiny run into TMP/run."""
    values = {
        "model": {
            "type": "llama2",
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "num_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 64,
        },
        "data": {"train": str(corpus)},
        "training": {
            "batch_size": 4,
            "micro_batch_size": 1,
            "seq_len": 32,
            "max_steps": 8,
            "lr": 3e-3,
            "lr_schedule": "constant",
            "warmup_steps": 2,
            "save_interval": 2,
            "num_threads": 1,
            "output_dir": str(tmp_path / "run"),
        },
    }
    path = tmp_path / "tiny.yaml"
    path.write_text(json.dumps(values, indent=1))
    return path
