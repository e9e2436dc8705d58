"""Token by token against the tokenizers library, which owns the format."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import tokenizers
from odd_texts import odd_texts

from mindspeed_llm.data import DataError, Tokenizer, _data

LLAMA3 = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"[^\r\n\p{L}\p{N}]?\p{L}+",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
]
CAPITALS, SMALLS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = [
    rf"[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}*{SMALLS}+{LLAMA3[0]}?",
    rf"[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}+{SMALLS}*{LLAMA3[0]}?",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    *LLAMA3[4:],
]
EXPRESSIONS = {
    "llama3": "|".join(LLAMA3),
    "qwen2": "|".join([*LLAMA3[:2], r"\p{N}", *LLAMA3[3:]]),
    "o200k": "|".join(O200K),
}


def with_expression(vocabulary: str, kind: str, folder: Path) -> str:
    """The vocabulary under another pre-tokeniser."""
    content = json.loads(Path(vocabulary).read_text())
    byte_level = {**content["pre_tokenizer"], "use_regex": False}
    split = {
        "type": "Split",
        "pattern": {"Regex": EXPRESSIONS[kind]},
        "behavior": "Isolated",
        "invert": False,
    }
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, byte_level]}
    path = folder / f"{kind}.json"
    path.write_text(json.dumps(content))
    return str(path)


@pytest.mark.parametrize("kind", ["gpt2", *EXPRESSIONS])
def test_encodes_as_the_tokenizers_library(vocabulary: str, tmp_path: Path, kind: str):
    path = vocabulary if kind == "gpt2" else with_expression(vocabulary, kind, tmp_path)
    ours, theirs = Tokenizer.from_file(path), tokenizers.Tokenizer.from_file(path)
    theirs.encode_special_tokens = True  # special tokens in text are text
    texts = odd_texts(6000, seed=1)
    expected = theirs.encode_batch(texts, add_special_tokens=False)
    for text, ids, reference in zip(texts, ours.encode_batch(texts), expected, strict=True):
        assert ids.tolist() == reference.ids, repr(text)
        assert ours.encode(text) == reference.ids
        assert ours.decode(reference.ids) == text


def test_encodes_the_corpus_as_the_tokenizers_library(vocabulary: str, documents: list[str]):
    ours, theirs = Tokenizer.from_file(vocabulary), tokenizers.Tokenizer.from_file(vocabulary)
    sample = documents[::20]
    expected = [e.ids for e in theirs.encode_batch(sample)]
    assert [ids.tolist() for ids in ours.encode_batch(sample)] == expected


def test_special_tokens_are_parsed_only_when_asked(vocabulary: str):
    ours, theirs = Tokenizer.from_file(vocabulary), tokenizers.Tokenizer.from_file(vocabulary)
    text = "one<|endoftext|>two <|endoftext|"
    assert ours.eos_token_id not in ours.encode(text)
    assert ours.encode(text, parse_special=True) == theirs.encode(text).ids
    ids = ours.encode(text, parse_special=True)
    assert ours.decode(ids, skip_special_tokens=False) == text
    assert ours.decode(ids) == text.replace("<|endoftext|>", "")


def test_any_bytes_survive(vocabulary: str):
    ours = Tokenizer.from_file(vocabulary)
    pick = random.Random(2)
    for length in range(200):
        data = bytes(pick.choices([0x20, 0x61, 0xC3, 0xA9, 0xE4, 0xF0, 0x80, 0xFF, 0], k=length))
        assert ours.decode_bytes(ours.encode(data)) == data
    assert ours.encode("a\ud800b") == ours.encode("a\ufffdb")


def test_a_word_of_a_million_letters_takes_no_quadratic_time(vocabulary: str):
    # Quadratic time would be hours (10^12 steps): the suite's time limit is the assertion.
    ours = Tokenizer.from_file(vocabulary)
    word = "".join(random.Random(3).choices("abcdefgh", k=1_000_000))
    assert ours.decode(ours.encode(word)) == word
    same = "a" * 1_000_000
    assert ours.decode(ours.encode(same)) == same


def test_long_words_merge_like_short_ones(vocabulary: str):
    ours, theirs = Tokenizer.from_file(vocabulary), tokenizers.Tokenizer.from_file(vocabulary)
    pick = random.Random(4)
    for length in range(1, 160):
        for letters in ("thande", "a", "ab", "-="):
            word = "".join(pick.choices(letters, k=length))
            assert ours.encode(word) == theirs.encode(word).ids, word


def test_ignore_merges(vocabulary: str, tmp_path: Path):
    content = json.loads(Path(vocabulary).read_text())
    content["model"]["ignore_merges"] = True
    content["model"]["vocab"]["xqzxqz"] = len(content["model"]["vocab"])  # no merge makes it
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    ours, theirs = Tokenizer.from_file(path), tokenizers.Tokenizer.from_file(str(path))
    for text in ["xqzxqz", " xqzxqz", "xqzxqz the", "the thing"]:
        assert ours.encode(text) == theirs.encode(text).ids


@pytest.mark.parametrize("corpus", ["austen", "odd"])
def test_trainer_finds_the_merges_of_the_tokenizers_library(
    documents: list[str], tmp_path: Path, corpus: str
):
    texts = documents[:60] if corpus == "austen" else odd_texts(3000, seed=5)
    source = tmp_path / "corpus.jsonl"
    source.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    options = _data.InputOptions([source], ["text"], 2, "file", 1 << 27, False, None)
    _data.train_tokenizer(options, 2000, ["<|endoftext|>"]).save(tmp_path / "ours.json")

    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=2000,
        min_frequency=2,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    theirs.train_from_iterator(texts, trainer)
    ours_model = json.loads((tmp_path / "ours.json").read_text())["model"]
    reference = json.loads(theirs.to_str())["model"]
    assert ours_model["vocab"] == reference["vocab"]
    assert ours_model["merges"] == [list(pair) for pair in reference["merges"]]


def test_trained_vocabulary_does_not_depend_on_workers(documents: list[str], tmp_path: Path):
    source = tmp_path / "corpus.jsonl"
    source.write_text("".join(json.dumps({"text": t}) + "\n" for t in [*documents] * 2))
    saved = set()
    for workers in (1, 2, 7):
        options = _data.InputOptions([source], ["text"], workers, "file", 1 << 27, False, None)
        path = tmp_path / f"{workers}.json"
        _data.train_tokenizer(options, 1000, ["<|endoftext|>"]).save(path)
        saved.add(path.read_bytes())
    assert len(saved) == 1
    assert tokenizers.Tokenizer.from_file(str(path)).get_vocab_size() == 1000


def test_from_pretrained_reads_the_folders_special_tokens(vocabulary: str, tmp_path: Path):
    content = json.loads(Path(vocabulary).read_text())
    first = len(content["model"]["vocab"])
    for offset, token in enumerate(["<start>", "<stop>"]):
        content["added_tokens"].append(
            {**content["added_tokens"][0], "id": first + offset, "content": token}
        )
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": "<start>", "eos_token": {"content": "<stop>"}})
    )
    ours = Tokenizer.from_pretrained(tmp_path)
    assert (ours.bos_token_id, ours.eos_token_id) == (first, first + 1)
    assert ours.vocab_size == first + 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.pop("model"), 'must have a "model"'),
        (lambda c: c["model"].update(type="WordPiece"), "model.type must be BPE"),
        (lambda c: c.update(normalizer={"type": "NFKC"}), "normalizer must be null"),
        (lambda c: c["model"].update(dropout=0.1), "model.dropout must be null"),
        (lambda c: c["model"]["merges"].append(["x", "nothing"]), "must be in model.vocab"),
        (lambda c: c["model"]["vocab"].pop("a"), "must"),
        (lambda c: c.update(pre_tokenizer={"type": "Metaspace"}), "pre_tokenizer must be"),
    ],
)
def test_refuses_what_it_does_not_do(vocabulary: str, tmp_path: Path, change, words: str):
    content = json.loads(Path(vocabulary).read_text())
    change(content)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=words):
        Tokenizer.from_file(path)


def test_refuses_broken_and_missing_files(tmp_path: Path, vocabulary: str):
    with pytest.raises(DataError, match="must exist"):
        Tokenizer.from_file(tmp_path / "none.json")
    (tmp_path / "half.json").write_text(Path(vocabulary).read_text()[:5000])
    with pytest.raises(DataError, match="must be JSON"):
        Tokenizer.from_file(tmp_path / "half.json")


def test_refuses_ids_outside_the_vocabulary(vocabulary: str):
    ours = Tokenizer.from_file(vocabulary)
    for bad in (ours.vocab_size, -1, 2**40):
        with pytest.raises(DataError, match="below the vocabulary size"):
            ours.decode([bad])


def test_import_is_light():
    code = (
        "import sys, mindspeed_llm.data; "
        "print([m for m in ('torch', 'transformers', 'pydantic') if m in sys.modules])"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert output.strip() == "[]"
