"""Cleaning and deduplication: against Python's unicodedata, and on planted copies."""

import json
import random
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from mindspeed_llm.data import DataError, _data
from mindspeed_llm.preprocess import main


def nfc(text: str) -> str:
    return _data.normalise_nfc(text).decode()


def test_nfc_equals_pythons_for_every_character():
    for code in range(0x110000):
        character = chr(code)
        if 0xD800 <= code < 0xE000 or unicodedata.category(character) == "Cn":
            continue  # surrogates; characters newer than this Python's Unicode
        if unicodedata.is_normalized("NFC", character) and not unicodedata.combining(character):
            continue  # these too, below, in mixtures
        for text in (character, f"a{character}", f"x\u0301{character}\u0323y"):
            assert nfc(text) == unicodedata.normalize("NFC", text), hex(code)


def test_nfc_equals_pythons_on_mixtures():
    pick = random.Random(1)
    assigned = [
        chr(code)
        for code in [*range(0x3200), *range(0xA000, 0xD800), *range(0xF900, 0x12000), 0x1D15E]
        if unicodedata.category(chr(code)) != "Cn"
    ]
    changing = [
        c
        for c in assigned
        if unicodedata.combining(c)
        or unicodedata.normalize("NFD", c) != c
        or "\u1100" <= c < "\u1200"
    ]
    for _ in range(20000):
        pool = pick.choice([assigned, changing, "ab \u0301\u0323e", "\u1100\u1161\u11a8\uac00"])
        text = "".join(pick.choices(pool, k=pick.choice([1, 2, 3, 8, 30])))
        assert nfc(text) == unicodedata.normalize("NFC", text), text.encode("unicode_escape")


def test_nfc_keeps_invalid_bytes():
    pick = random.Random(2)
    for _ in range(2000):
        raw = bytes(pick.choices([0x61, 0xCC, 0x81, 0xC3, 0xA9, 0xE2, 0xFF, 0x80], k=12))
        ours = _data.normalise_nfc(raw).decode("utf-8", "surrogateescape")
        text = raw.decode("utf-8", "surrogateescape")
        assert ours == unicodedata.normalize("NFC", text)


def test_nfc_of_a_long_run_of_marks_is_not_quadratic():
    run = "a" + "\u0301\u0323" * 200_000  # 1.6e11 steps if each mark were sifted down the run
    assert len(nfc(run)) == 400_000


def clean(text: str, **limits: object) -> tuple[str, dict[str, int]]:
    options = _data.CleaningOptions()
    for name, value in limits.items():
        setattr(options, name, value)
    cleaning = _data.CleaningFilter(options)
    reason, _ = cleaning.apply(0, 0, text)
    counts = cleaning.counts()
    assert sum(counts.values()) == (reason != "")
    return reason, counts


LINES = "the same line\n" * 9 + "another line\n"


@pytest.mark.parametrize(
    ("name", "text", "keeps", "drops"),
    [
        ("min_characters", "\u4e2d\u6587", 2, 3),  # characters, not bytes
        ("max_characters", "\u4e2d\u6587", 2, 1),
        ("min_mean_word_length", "a bc d", 1.3, 1.4),
        ("max_mean_word_length", "a bc d", 1.4, 1.3),
        ("min_letter_share", "ab\u0301 12 !", 0.5, 0.51),  # 3 letters and marks of 6
        ("max_repeated_line_share", LINES, 0.9, 0.89),  # 8 * 13 of 9 * 13 + 12 bytes, is 0.806
        ("min_characters", "", 0, 1),
        ("max_repeated_line_share", "", 0.0, None),
    ],
)
def test_each_limit_drops_and_counts(name: str, text: str, keeps: float, drops: float | None):
    assert clean(text, **{name: keeps})[0] == ""
    if drops is not None and name != "max_repeated_line_share":
        flag = "--" + name.replace("_", "-")
        reason, counts = clean(text, **{name: drops})
        assert flag in reason
        assert counts[flag[2:]] == 1


def test_repeated_lines():
    share = 8 * 13 / (9 * 13 + 12)
    assert clean(LINES, max_repeated_line_share=share + 1e-6)[0] == ""
    reason, counts = clean(LINES, max_repeated_line_share=share - 1e-6)
    assert "--max-repeated-line-share" in reason and counts["max-repeated-line-share"] == 1


def test_nfc_comes_before_the_limits_and_is_counted():
    options = _data.CleaningOptions()
    options.nfc, options.max_characters = True, 1
    cleaning = _data.CleaningFilter(options)
    assert cleaning.apply(0, 0, "e\u0301") == ("", "\u00e9".encode())
    assert cleaning.counts()["nfc"] == 1


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"min_characters": 5, "max_characters": 4}, "--max-characters must be at least"),
        ({"min_letter_share": 1.5}, "--min-letter-share must be from 0 to 1, got 1.5"),
        ({"max_repeated_line_share": float("nan")}, "must be from 0 to 1"),
        ({"max_mean_word_length": -1.0}, "--max-mean-word-length must be at least"),
    ],
)
def test_refuses_limits_that_make_no_sense(limits: dict[str, float], words: str):
    with pytest.raises(DataError, match=words):
        clean("", **limits)


def jaccard(a: str, b: str) -> float:
    """Of the runs of five words, computed plainly."""

    def shingles(text: str) -> set[tuple[str, ...]]:
        words = text.split()
        return {tuple(words[i : i + 5]) for i in range(max(1, len(words) - 4))}

    left, right = shingles(a), shingles(b)
    return len(left & right) / len(left | right)


def plant(document: str, share_changed: float, pick: random.Random) -> tuple[str, str]:
    """A piece of real prose and a copy with some words replaced."""
    words = ["".join(filter(str.isalpha, word.lower())) or "x" for word in document.split()[:300]]
    copy = [f"z{pick.randrange(10**6)}" if pick.random() < share_changed else w for w in words]
    return " ".join(words), " ".join(copy)


def test_recall_and_precision_on_planted_copies(documents: list[str], tmp_path: Path):
    pick = random.Random(3)
    changes = [0, 0.005, 0.01, 0.02, 0.05]
    pairs = [plant(text, pick.choice(changes), pick) for text in dict.fromkeys(documents)]
    similarity = np.array([jaccard(*pair) for pair in pairs])
    dedup = _data.DedupFilter(tmp_path, near=True, near_threshold=0.8)
    texts = [text for pair in pairs for text in pair]
    dedup.apply_batch(texts)
    counts = dedup.decide()
    reasons = dedup.apply_batch(texts)
    dropped = np.array([reason != "" for reason in reasons[1::2]])
    assert counts["exact_documents"] + counts["near_documents"] == sum(map(bool, reasons))
    assert all(reasons[2 * i + 1] for i, (a, b) in enumerate(pairs) if a == b)
    assert dropped[similarity >= 0.9].mean() > 0.99  # recall
    assert dropped[similarity < 0.65].mean() < 0.01
    assert (similarity[dropped] >= 0.7).mean() > 0.99  # precision
    assert not any(reasons[0::2])  # the originals stay


def test_copies_differ_from_other_documents(documents: list[str], tmp_path: Path):
    dedup = _data.DedupFilter(tmp_path, near=True)
    texts = list(dict.fromkeys(documents))
    dedup.apply_batch(texts)
    assert dedup.decide()["near_documents"] == 0  # Austen does not repeat herself
    assert not any(dedup.apply_batch(texts))


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_preprocess_drops_what_the_flags_ask(
    documents: list[str], vocabulary: str, tmp_path: Path, workers: int
):
    near = documents[5] + " One more word."
    texts = ["short", *documents[:20], documents[3], near, "", "e\u0301" * 300]
    source = tmp_path / "corpus.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    arguments = ["--input", str(source), "--tokenizer-name-or-path", vocabulary]
    report = tmp_path / "report.json"
    flags = ["--nfc", "--min-characters", "200", "--dedup", "near", "--json", str(report)]
    prefix = tmp_path / "cleaned" / "corpus"
    assert (
        main([*arguments, *flags, "--workers", str(workers), "--output-prefix", str(prefix)]) == 0
    )
    counts = json.loads(report.read_text())
    assert counts["documents"] == 21 and counts["empty"] == 1
    assert counts["dropped_reasons"] == {
        "fewer characters than --min-characters": 1,
        "exact duplicate": 1,
        "near duplicate": 1,
    }
    assert counts["dedup"]["documents"] == 23 and counts["dedup"]["largest_cluster"] == 1

    kept = tmp_path / "kept.jsonl"
    kept.write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in [*documents[:20], "\u00e9" * 300])
    )
    arguments[1] = str(kept)
    plain = tmp_path / "plain"
    assert main([*arguments, "--output-prefix", str(plain)]) == 0
    for suffix in ("bin", "idx"):
        ours = prefix.with_name(f"corpus_text_document.{suffix}").read_bytes()
        assert ours == plain.with_name(f"plain_text_document.{suffix}").read_bytes()
    assert not list(prefix.parent.glob("*scratch*"))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--dedup", "near", "--json-keys", "text", "title"], "--dedup must have one key"),
        (["--dedup", "near", "--near-threshold", "0"], "--near-threshold must be above 0"),
        (["--dedup", "exact", "--dedup-memory-mb", "0"], "--dedup-memory-mb must be at least 1"),
        (["--dedup", "substring", "--substring-bytes", "7"], "--substring-bytes must be from 8"),
        (["--min-characters", "-1"], "--min-characters must be from 0"),
    ],
)
def test_preprocess_refuses_bad_flags(
    flags: list[str], words: str, vocabulary: str, tmp_path: Path
):
    source = tmp_path / "corpus.jsonl"
    source.write_text('{"text": "a"}\n')
    arguments = ["--input", str(source), "--tokenizer-name-or-path", vocabulary]
    with pytest.raises(DataError, match=words):
        main([*arguments, *flags, "--output-prefix", str(tmp_path / "out")])


def cut_plainly(texts: list[bytes], size: int) -> list[bytes]:
    """What substring deduplication must give for ASCII: every window that stood before is marked."""
    first: dict[bytes, tuple[int, int]] = {}
    cut = []
    for number, text in enumerate(texts):
        marks = bytearray(len(text))
        for at in range(len(text) - size + 1):
            document, start = first.setdefault(text[at : at + size], (number, at))
            if (document, start) != (number, at):
                begin = max(at, start + size) if document == number else at
                marks[begin : at + size] = b"\1" * (at + size - begin)
        cut.append(bytes(byte for byte, mark in zip(text, marks, strict=True) if not mark))
    return cut


@pytest.mark.parametrize(("memory_bytes", "threads"), [(1 << 28, 1), (60_000, 2), (1000, 7)])
def test_substrings_equal_the_plain_search(memory_bytes: int, threads: int, tmp_path: Path):
    pick = random.Random(4)
    passages = [bytes(pick.choices(b"abcd ", k=pick.choice([9, 20, 60]))) for _ in range(60)]
    texts = [b"", b"x", b"a" * 100, b"ab" * 50]
    for _ in range(150):
        texts.append(b"".join(pick.choices(passages, k=pick.randrange(8))))
    dedup = _data.SubstringFilter(
        tmp_path, min_bytes=16, memory_bytes=memory_bytes, threads=threads
    )
    for number in reversed(range(len(texts))):  # the order of adding does not matter
        dedup.apply(0, number, texts[number])
    counts = dedup.decide()
    expected = cut_plainly(texts, 16)
    results = [dedup.apply(0, number, text) for number, text in enumerate(texts)]
    for (reason, kept), plain, text in zip(results, expected, texts, strict=True):
        assert kept == plain
        assert (reason != "") == (plain != text and not plain.strip())
    assert counts["removed_bytes"] == sum(map(len, texts)) - sum(map(len, expected)) > 1000
    assert counts["documents"] == len(texts)


def test_substring_cuts_keep_characters_whole(tmp_path: Path):
    pick = random.Random(5)
    letters = "\u4e00\u4e01\u4e02\u00e9a"
    passages = ["".join(pick.choices(letters, k=30)) for _ in range(20)]
    texts = ["".join(pick.choices(passages, k=4)) for _ in range(60)]
    dedup = _data.SubstringFilter(tmp_path, min_bytes=20)
    dedup.apply_batch([text.encode() for text in texts])
    assert dedup.decide()["removed_bytes"] > 0
    for number, text in enumerate(texts):
        _, kept = dedup.apply(0, number, text)
        kept.decode()  # raises where a character was cut


@pytest.mark.parametrize("count", [0, 1, 2])
def test_substrings_of_few_documents(count: int, tmp_path: Path):
    dedup = _data.SubstringFilter(tmp_path, min_bytes=8)
    dedup.apply_batch([b"the same text"] * count)
    assert dedup.decide()["changed_documents"] == max(0, count - 1)
    reasons = dedup.apply_batch([b"the same text"] * count)
    assert list(map(bool, reasons)) == [False, True][:count]


def test_substring_length_must_make_sense(tmp_path: Path):
    with pytest.raises(DataError, match="--substring-bytes must be at least 8, got 7"):
        _data.SubstringFilter(tmp_path, min_bytes=7)


def test_preprocess_cuts_repeated_passages(documents: list[str], vocabulary: str, tmp_path: Path):
    passage = documents[7][:1000]
    texts = [
        documents[1],
        documents[7],
        documents[2] + passage,
        documents[7][100:600],
        documents[1],
    ]
    source, report = tmp_path / "corpus.jsonl", tmp_path / "report.json"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    arguments = ["--input", str(source), "--tokenizer-name-or-path", vocabulary]
    flags = ["--dedup", "substring", "--json", str(report)]
    assert main([*arguments, *flags, "--output-prefix", str(tmp_path / "out")]) == 0
    counts = json.loads(report.read_text())
    assert counts["documents"] == 3
    assert counts["dropped_reasons"] == {
        "all of it repeats earlier passages": 1,
        "exact duplicate": 1,
    }
    assert counts["dedup"]["substring"]["changed_documents"] == 2
    removed = len(passage.encode()) + len(texts[3].encode())
    assert counts["dedup"]["substring"]["removed_bytes"] == removed
    kept = sum(len(text.encode()) for text in texts[:3]) - len(passage.encode())
    assert counts["text_bytes"] == kept
