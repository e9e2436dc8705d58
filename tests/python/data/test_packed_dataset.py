"""Packed samples: what is in them, in which order they come, and what is refused."""

import json
import struct
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from mindspeed_llm.data import DataError, IndexedDataset, PackedDataset, Prefetcher


def write_tokens(prefix: Path, documents: list[list[int]], code: int = 8) -> str:
    """A token file pair in Megatron's layout, made without our writer."""
    dtype = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}[code]
    lengths = [len(d) for d in documents]
    offsets = np.cumsum([0, *lengths])[:-1] * np.dtype(dtype).itemsize
    flat = [token for d in documents for token in d]
    Path(f"{prefix}.bin").write_bytes(np.array(flat, dtype).tobytes())
    header = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(documents), len(documents) + 1)
    arrays = (
        np.array(lengths, "<i4"),
        offsets.astype("<i8"),
        np.arange(len(documents) + 1, dtype="<i8"),
    )
    Path(f"{prefix}.idx").write_bytes(header + b"".join(a.tobytes() for a in arrays))
    return str(prefix)


def numbered(count: int, lengths: list[int]) -> list[list[int]]:
    """Documents whose tokens are 0, 1, 2, ... over the whole corpus."""
    documents, token = [], 0
    for i in range(count):
        length = lengths[i % len(lengths)]
        documents.append(list(range(token, token + length)))
        token += length
    return documents


def check_row(sample: dict, documents: list[list[int]], seq_len: int) -> list[int]:
    """Every token, label, position and boundary of one row against the documents themselves."""
    position_of = {t: (d, i) for d, doc in enumerate(documents) for i, t in enumerate(doc)}
    tokens, labels = sample["input_ids"].tolist(), sample["labels"].tolist()
    positions, bounds = sample["positions"].tolist(), sample["cu_seqlens"].tolist()
    assert bounds[0] == 0 and bounds[-1] == seq_len and sorted(set(bounds)) == bounds
    for start, end in pairwise(bounds):
        document, first = position_of[tokens[start]]
        assert tokens[start:end] == documents[document][first : first + end - start]
        assert positions[start:end] == list(range(end - start))
        following = documents[document][first + end - start : first + end - start + 1] or [-100]
        assert labels[start:end] == tokens[start + 1 : end] + following
        assert end == seq_len or following == [-100]
    return tokens


@pytest.mark.parametrize("lengths", [[5], [1], [40], [3, 0, 0, 17, 1, 0, 9], [0, 100]])
@pytest.mark.parametrize("seq_len", [1, 7, 16])
def test_rows_are_cut_from_the_documents(tmp_path: Path, lengths: list[int], seq_len: int):
    documents = numbered(23, lengths)
    dataset = PackedDataset(write_tokens(tmp_path / "c", documents), seq_len, seed=3)
    total = sum(map(len, documents))
    assert dataset.num_tokens == total
    windows = dataset.samples_per_epoch()
    assert windows == total // seq_len
    starts = set()
    for epoch in range(3):
        seen: list[int] = []
        for sample in range(epoch * windows, (epoch + 1) * windows):
            seen += check_row(dataset.sample(sample), documents, seq_len)
        assert len(seen) == len(set(seen)) == windows * seq_len  # no token twice in an epoch
        starts.add(tuple(seen[:1]))
    if windows > 20:
        assert len(starts) > 1


def test_crossing_documents_on_request(tmp_path: Path):
    documents = numbered(10, [5, 3])
    dataset = PackedDataset(write_tokens(tmp_path / "c", documents), 8, cross_documents=True)
    for number in range(dataset.samples_per_epoch()):
        row = dataset.sample(number)
        assert row["cu_seqlens"].tolist() == [0, 8]
        assert row["positions"].tolist() == list(range(8))
        assert row["labels"][:-1].tolist() == row["input_ids"][1:].tolist()


def test_a_batch_is_its_samples_stacked(austen: str):
    dataset = PackedDataset(austen, 128, seed=1)
    numbers = [5, 0, 10**12, 5]
    batch = dataset.batch(numbers)
    assert batch["input_ids"].shape == batch["labels"].shape == (4, 128)
    assert batch["positions"].shape == (512,)
    assert {k: str(v.dtype) for k, v in batch.items()} == {
        "input_ids": "int64", "labels": "int64", "positions": "int32", "cu_seqlens": "int32",
    }  # fmt: skip
    bounds = [0]
    for row, number in enumerate(numbers):
        one = dataset.sample(number)
        for key in ("input_ids", "labels"):
            assert (batch[key][row] == one[key]).all()
        assert (batch["positions"][row * 128 : (row + 1) * 128] == one["positions"]).all()
        bounds += (one["cu_seqlens"][1:] + row * 128).tolist()
    assert batch["cu_seqlens"].tolist() == bounds


def test_the_order_depends_on_seed_and_number_alone(austen: str):
    numbers = list(range(40))
    first = PackedDataset(austen, 64, seed=7)
    again = PackedDataset(austen, 64, seed=7)
    other = PackedDataset(austen, 64, seed=8)
    rows = first.batch(numbers)["input_ids"]
    for number in reversed(numbers):  # another order of asking
        assert (again.sample(number)["input_ids"] == rows[number]).all()
    assert (other.batch(numbers)["input_ids"] != rows).any(axis=1).all()
    negative = PackedDataset(austen, 64, seed=-1)
    assert negative.sample(0)["input_ids"].shape == (64,)


def test_blend_keeps_the_weights_exactly_and_repeats_nothing(tmp_path: Path):
    sources, sizes = [], [400, 1000, 100]
    for corpus, size in enumerate(sizes):
        documents = [[corpus] * 4 for _ in range(size)]
        weight = [0.5, 0.3, 0.2][corpus]
        sources.append({"path": write_tokens(tmp_path / str(corpus), documents), "weight": weight})
    dataset = PackedDataset(sources, 4, seed=5)
    places = [dataset._core.window(i) for i in range(2000)]
    for count in (10, 100, 777, 2000):
        found = Counter(corpus for corpus, _ in places[:count])
        for corpus, weight in enumerate([0.5, 0.3, 0.2]):
            assert abs(found[corpus] - weight * count) <= 2
    for corpus, size in enumerate(sizes):
        starts = [start for c, start in places if c == corpus]
        epoch = starts[:size]
        assert len(set(epoch)) == len(epoch)
        rows = [i for i, (c, _) in enumerate(places) if c == corpus][:5]
        assert all((dataset.sample(i)["input_ids"] == corpus).all() for i in rows)


def test_windows_are_in_a_random_order(austen: str):
    dataset = PackedDataset(austen, 64, seed=0)
    windows = dataset.samples_per_epoch()
    starts = np.array([dataset._core.window(i)[1] for i in range(windows)])
    assert len(set(starts.tolist())) == windows
    assert (
        len(set(((starts - starts[0]) % 64 % dataset.num_tokens).tolist())) <= 2
    )  # one grid, cut once
    # Serial correlation of a random order is about 1/sqrt(n); five standard deviations are allowed.
    correlation = np.corrcoef(starts[:-1], starts[1:])[0, 1]
    assert abs(correlation) < 5 / np.sqrt(windows)
    # The first half of an epoch has about half of each tenth of the corpus (binomial, 5 deviations).
    tenths = np.bincount(starts[: windows // 2] * 10 // dataset.num_tokens, minlength=10)
    assert (abs(tenths - windows / 20) < 5 * np.sqrt(windows / 40)).all()


@pytest.mark.parametrize("code", [1, 2, 3, 4, 5, 8])
def test_reads_every_integer_type(tmp_path: Path, code: int):
    documents = [[1, 2, 100], [3], [], [127, 0]]
    dataset = IndexedDataset(write_tokens(tmp_path / "c", documents, code))
    assert (dataset.num_documents, dataset.num_tokens, dataset.largest_id) == (4, 6, 127)
    assert dataset.read(0, 6).tolist() == [1, 2, 100, 3, 127, 0]
    assert [dataset.document_range(i) for i in range(4)] == [(0, 3), (3, 4), (4, 4), (4, 6)]
    with pytest.raises(DataError, match="must lie within"):
        dataset.read(2, 10**18)
    with pytest.raises(IndexError):
        dataset.document_range(4)


def test_the_largest_id_is_known_with_and_without_the_summary(austen: str, tmp_path: Path):
    tokens = np.fromfile(f"{austen}.bin", np.uint16)
    assert PackedDataset(austen, 64).vocab_upper_bound == tokens.max()
    for suffix in (".bin", ".idx"):
        (tmp_path / f"copy{suffix}").symlink_to(austen + suffix)
    assert PackedDataset(tmp_path / "copy", 64).vocab_upper_bound == tokens.max()
    (tmp_path / "copy.json").write_text(
        json.dumps({"tokens": 5, "largest_id": 9})
    )  # of another run
    assert PackedDataset(tmp_path / "copy", 64).vocab_upper_bound == tokens.max()


def damage(path: str, offset: int, data: bytes) -> None:
    with Path(path).open("r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda p: Path(p + ".idx").unlink(), r"c.idx: cannot open.*mindspeed preprocess"),
        (lambda p: Path(p + ".bin").unlink(), r"c.bin: cannot open"),
        (lambda p: Path(p + ".idx").write_bytes(b""), "must begin with"),
        (lambda p: damage(p + ".idx", 0, b"X"), "must begin with"),
        (lambda p: damage(p + ".idx", 9, b"\2"), "version must be 1, got 2"),
        (lambda p: damage(p + ".idx", 17, b"\6"), "whole-number type, got code 6"),
        (lambda p: damage(p + ".idx", 18, b"\xff" * 8), "size must fit its counts"),
        (lambda p: damage(p + ".idx", 26, b"\0" * 8), "size must fit its counts"),
        (lambda p: damage(p + ".idx", 34, b"\xff" * 4), "must begin where the one before ends"),
        (lambda p: damage(p + ".idx", 34 + 4 * 5 + 8, b"\x07"), "must begin where the one before"),
        (
            lambda p: damage(p + ".idx", 34 + 12 * 5 + 8, b"\x07"),
            "must not begin before|must end at",
        ),
        (lambda p: Path(p + ".idx").write_bytes(Path(p + ".idx").read_bytes()[:-1]), "truncated"),
        (lambda p: Path(p + ".bin").write_bytes(Path(p + ".bin").read_bytes()[:-2]), "truncated"),
        (
            lambda p: Path(p + ".bin").write_bytes(Path(p + ".bin").read_bytes()[:-1]),
            "multiple of 2",
        ),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, harm, words: str):
    prefix = write_tokens(tmp_path / "c", numbered(5, [10]))
    harm(prefix)
    with pytest.raises(DataError, match=words):
        PackedDataset(prefix, 4)


def test_a_corpus_shorter_than_a_sequence_is_refused(tmp_path: Path):
    prefix = write_tokens(tmp_path / "c", numbered(2, [10]))
    assert PackedDataset(prefix, 20).samples_per_epoch() == 1
    with pytest.raises(
        DataError, match=r"at least one sequence of 21 tokens, got 20; use more text"
    ):
        PackedDataset(prefix, 21)
    with pytest.raises(DataError, match="at least one sequence"):
        PackedDataset(write_tokens(tmp_path / "e", []), 1)


@pytest.mark.parametrize("weights", [[0, 0], [-1, 2], [float("nan"), 1], [float("inf"), 1]])
def test_bad_weights_are_refused(tmp_path: Path, weights: list[float]):
    prefix = write_tokens(tmp_path / "c", numbered(2, [10]))
    with pytest.raises(DataError, match="weight"):
        PackedDataset([{"path": prefix, "weight": w} for w in weights], 4)


def test_a_zero_weight_corpus_gives_no_samples(tmp_path: Path):
    prefixes = [write_tokens(tmp_path / str(i), [[i] * 50]) for i in range(3)]
    for nought in range(3):
        sources = [
            {"path": p, "weight": 0.0 if i == nought else 1.0} for i, p in enumerate(prefixes)
        ]
        found = {int(PackedDataset(sources, 5).sample(n)["input_ids"][0]) for n in range(100)}
        assert found == {0, 1, 2} - {nought}


def test_prefetcher_gives_the_batches_in_order(austen: str):
    dataset = PackedDataset(austen, 32, seed=2)
    order = [[i, i + 7] for i in range(9)]
    for depth in (1, 3, 20):
        batches = list(Prefetcher(dataset, order, depth))
        assert len(batches) == len(order)
        for batch, samples in zip(batches, order, strict=True):
            assert (batch["input_ids"] == dataset.batch(samples)["input_ids"]).all()
    endless = Prefetcher(dataset, ([i] for i in iter(int, 1)), 2)
    assert next(endless)["input_ids"].shape == (1, 32)
    endless.close()


def test_prefetcher_passes_errors_on(austen: str):
    broken = Prefetcher(PackedDataset(austen, 32), [[0], [-1]])
    next(broken)
    with pytest.raises(TypeError):
        next(broken)


def test_offsets_beyond_32_bits(tmp_path: Path):
    """A sparse file of more than 2^32 tokens of 4 bytes; real ids stand at its very end."""
    sequence = 2**31 - 1
    count, last = 2, 6
    prefix = tmp_path / "c"
    lengths = np.array([sequence] * count + [last], "<i4")
    offsets = np.cumsum([0, *lengths.astype(np.int64)])[:-1] * 4
    header = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, count + 1, count + 2)
    documents = np.arange(count + 2, dtype="<i8")
    Path(f"{prefix}.idx").write_bytes(
        header + lengths.tobytes() + offsets.astype("<i8").tobytes() + documents.tobytes()
    )
    with Path(f"{prefix}.bin").open("wb") as file:
        file.truncate(int(offsets[-1]) + 4 * last)
        file.seek(int(offsets[-1]))
        file.write(np.arange(1, last + 1, dtype="<i4").tobytes())
    dataset = IndexedDataset(prefix)
    assert dataset.num_tokens == 2**32 - 2 + last
    start, end = dataset.document_range(count)
    assert dataset.read(start, end - start).tolist() == [1, 2, 3, 4, 5, 6]
    packed = PackedDataset(prefix, 2**20)
    assert packed.samples_per_epoch() == (2**32 + 4) // 2**20
    numbers = [packed._core.window(i)[1] for i in range(3000)]
    assert max(numbers) > 2**31
