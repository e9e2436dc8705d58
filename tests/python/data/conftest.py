"""A small real corpus, a vocabulary trained on it, and its token files: made once a session."""

import gzip
import json
import os
from pathlib import Path

import pytest

from mindspeed_llm.preprocess import main

ROOT = Path(__file__).resolve().parents[3]
CORPUS = ROOT / "examples/corpus/austen.jsonl.gz"


@pytest.fixture(scope="session")
def documents() -> list[str]:
    with gzip.open(CORPUS, "rt", encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


@pytest.fixture(scope="session")
def austen(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Prefix of the token files; tokenizer.json lies beside them."""
    prefix = tmp_path_factory.mktemp("austen") / "austen"
    arguments = [
        "--input",
        str(CORPUS),
        "--train-tokenizer",
        "1024",
        "--output-prefix",
        str(prefix),
    ]
    assert main(arguments) == 0
    return f"{prefix}_text_document"


@pytest.fixture(scope="session")
def vocabulary(austen: str) -> str:
    return os.fspath(Path(austen).parent / "tokenizer.json")
