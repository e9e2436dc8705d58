"""mindspeed preprocess: what is written, what is rejected, and that nothing half-written is left."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mindspeed_llm.command_line import main as mindspeed
from mindspeed_llm.data import DataError, IndexedDataset, Tokenizer
from mindspeed_llm.preprocess import main


def write_jsonl(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts), encoding="utf-8")
    return path


def read_documents(prefix: Path | str) -> list[list[int]]:
    dataset = IndexedDataset(prefix)
    ranges = [dataset.document_range(i) for i in range(dataset.num_documents)]
    return [dataset.read(start, end - start).tolist() for start, end in ranges]


def run(folder: Path, vocabulary: str, *inputs: Path | str, extra: tuple[str, ...] = ()) -> Path:
    arguments = ["--input", *map(str, inputs), "--tokenizer-name-or-path", vocabulary]
    assert main([*arguments, "--output-prefix", str(folder / "out"), *extra]) == 0
    return folder / "out_text_document"


def test_every_document_ends_with_the_end_of_text_token(austen: str, vocabulary: str, documents):
    tokenizer = Tokenizer.from_file(vocabulary)
    expected = [[*tokenizer.encode(text), tokenizer.eos_token_id] for text in documents]
    assert read_documents(austen) == expected


def test_the_bytes_do_not_depend_on_the_number_of_workers(
    tmp_path: Path, vocabulary: str, documents: list[str]
):
    texts = [part for text in documents for part in text.split("\n\n")]
    source = write_jsonl(tmp_path / "in.jsonl", texts)
    results = []
    for workers in (1, 2, 7):
        folder = tmp_path / str(workers)
        run(folder, vocabulary, source, extra=("--workers", str(workers)))
        arguments = ["--input", str(source), "--train-tokenizer", "600"]
        arguments += ["--workers", str(workers), "--output-prefix", str(folder / "trained")]
        assert main(arguments) == 0
        results.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    assert len(results[0]) == 7
    assert results[0] == results[1] == results[2]


def test_the_layout_is_megatrons(tmp_path: Path, vocabulary: str):
    prefix = run(
        tmp_path, vocabulary, write_jsonl(tmp_path / "in.jsonl", ["one", "two words", "3"])
    )
    index = Path(f"{prefix}.idx").read_bytes()
    tokens = np.fromfile(f"{prefix}.bin", np.uint16)
    assert index[:9] == b"MMIDIDX\0\0"
    assert np.frombuffer(index, "<u8", 1, 9)[0] == 1
    assert index[17] == 8  # uint16
    assert np.frombuffer(index, "<u8", 2, 18).tolist() == [3, 4]
    lengths = np.frombuffer(index, "<i4", 3, 34)
    offsets = np.frombuffer(index, "<i8", 3, 34 + 12)
    assert lengths.sum() == len(tokens)
    assert offsets.tolist() == [0, 2 * lengths[0], 2 * (lengths[0] + lengths[1])]
    assert np.frombuffer(index, "<i8", 4, 34 + 36).tolist() == [0, 1, 2, 3]
    assert len(index) == 42 + 20 * 3


@pytest.mark.parametrize(
    "form", ["jsonl", "jsonl.gz", "json", "json.gz", "crlf", "members", "folder"]
)
def test_input_forms(tmp_path: Path, vocabulary: str, form: str):
    texts = ["first", 'second "quoted" [a, {b}] \\', "th\u00efrd \U0001f600 line\nbreak"]
    tokenizer = Tokenizer.from_file(vocabulary)
    lines = [json.dumps({"id": [1, {"x": "]"}], "text": t}) for t in texts]
    source = tmp_path / f"in.{form}"
    if form == "jsonl":
        source.write_text("\ufeff" + "\n\n".join(lines))  # BOM, blank lines, no last newline
    elif form == "jsonl.gz":
        source.write_bytes(gzip.compress("\n".join(lines).encode()))
    elif form == "json":
        source.write_text(" [\n" + ",\n".join(lines) + "\n]\n")
    elif form == "json.gz":
        source.write_bytes(
            gzip.compress(json.dumps([json.loads(x) for x in lines], indent=2).encode())
        )
    elif form == "crlf":
        source = tmp_path / "in.jsonl"
        source.write_bytes("\r\n".join(lines).encode())
    elif form == "members":
        source = tmp_path / "in.jsonl.gz"
        source.write_bytes(b"".join(gzip.compress(f"{x}\n".encode()) for x in lines))
    else:
        source.mkdir()
        for number, line in enumerate(lines):
            (source / f"{number}.jsonl").write_text(line)
        (source / "notes.md").write_text("not read")
    prefix = run(tmp_path, vocabulary, source)
    expected = [[*tokenizer.encode(t), tokenizer.eos_token_id] for t in texts]
    assert read_documents(prefix) == expected
    assert not (tmp_path / "out_rejected.jsonl").exists()


@pytest.mark.parametrize("unit", ["file", "paragraph", "line"])
def test_plain_text(tmp_path: Path, vocabulary: str, unit: str):
    tokenizer = Tokenizer.from_file(vocabulary)
    (tmp_path / "a.txt").write_text("one\ntwo\n\n\nthree\n")
    (tmp_path / "b.txt").write_text("four")
    expected = {
        "file": ["one\ntwo\n\n\nthree\n", "four"],
        "paragraph": ["one\ntwo", "three", "four"],
        "line": ["one", "two", "three", "four"],
    }[unit]
    prefix = run(
        tmp_path,
        vocabulary,
        str(tmp_path / "*.txt"),
        extra=("--text-documents", unit, "--no-append-eod"),
    )
    assert [tokenizer.decode(ids) for ids in read_documents(prefix)] == expected


def test_bad_lines_are_counted_and_written_out(tmp_path: Path, vocabulary: str, capsys):
    good = json.dumps({"text": "fine"}).encode()
    bad = {
        2: (b'{"text": "broken', "not valid JSON"),
        3: (b'{"other": "x"}', 'no key "text"'),
        4: (b'{"text": 5}', "is not a string"),
        5: (b'{"text": "\xff\xfe"}', "not valid UTF-8"),
        6: (b'{"text": "a\x00b"}', "not valid JSON"),
        7: (b'["text"]', "not a JSON object"),
        8: (b'{"text": "' + b"x" * 3000 + b'"}', "longer than the limit"),
        9: (b'{"text": "a"} {"text": "b"}', "not valid JSON"),
    }
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"\n".join([good, *(line for line, _ in bad.values()), good]))
    prefix = run(tmp_path, vocabulary, source, extra=("--max-record-bytes", "2000"))
    assert len(read_documents(prefix)) == 2
    rejected = [json.loads(x) for x in (tmp_path / "out_rejected.jsonl").read_text().splitlines()]
    assert [r["line"] for r in rejected] == list(bad)
    assert all(r["file"] == str(source) for r in rejected)
    for record, (line, reason) in zip(rejected, bad.values(), strict=True):
        assert reason in record["reason"]
        assert record["text"][:5] == line[:5].decode()
    assert "8 bad lines rejected" in capsys.readouterr().out

    with pytest.raises(DataError, match=r"in.jsonl:2: not valid JSON.*--on-bad-line skip"):
        run(tmp_path / "fatal", vocabulary, source, extra=("--on-bad-line", "fail"))
    assert list((tmp_path / "fatal").iterdir()) == []


def test_lone_surrogates_become_the_replacement_character(tmp_path: Path, vocabulary: str, capsys):
    source = tmp_path / "in.jsonl"
    source.write_text(
        r'{"text": "a\ud83d b\uDE00 \ud83d\ude00 \\ud83d"}'
        + "\n"
        + r'{"text": "\ud83d\ud83d\ude00"}'
    )
    prefix = run(tmp_path, vocabulary, source, extra=("--no-append-eod",))
    tokenizer = Tokenizer.from_file(vocabulary)
    texts = [tokenizer.decode(ids) for ids in read_documents(prefix)]
    assert texts == ["a\ufffd b\ufffd \U0001f600 \\ud83d", "\ufffd\U0001f600"]
    assert "3 lone surrogates" in capsys.readouterr().out


def test_empty_documents_are_skipped_and_counted(tmp_path: Path, vocabulary: str, capsys):
    source = write_jsonl(tmp_path / "in.jsonl", ["", "one", "", "", "two", ""])
    prefix = run(tmp_path, vocabulary, source)
    assert len(read_documents(prefix)) == 2
    assert "4 empty documents skipped" in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"\n\n", b'{"text": ""}\n', b"nonsense\n", b"[]"])
@pytest.mark.parametrize("training", [True, False])
def test_an_empty_corpus_is_one_clear_error(
    tmp_path: Path, vocabulary: str, content: bytes, training: bool, capsys
):
    source = tmp_path / "in.json"
    source.write_bytes(content)
    out = tmp_path / "out"
    how = ["--train-tokenizer", "300"] if training else ["--tokenizer-name-or-path", vocabulary]
    code = mindspeed(
        ["preprocess", "--input", str(source), *how, "--output-prefix", str(out / "x")]
    )
    error = capsys.readouterr().err.splitlines()
    assert code == 1
    assert len(error) == 1
    assert "in.json: the corpus must have at least one document with text" in error[0]
    assert not out.exists() or list(out.iterdir()) == []


def test_several_keys(tmp_path: Path, vocabulary: str):
    source = tmp_path / "in.jsonl"
    source.write_text(
        '{"title": "t one", "body": "b one"}\n{"title": "t", "body": "b"}\n{"title": "t"}\n'
    )
    run(tmp_path, vocabulary, source, extra=("--json-keys", "title", "body"))
    tokenizer = Tokenizer.from_file(vocabulary)
    for key, expected in {"title": ["t one", "t"], "body": ["b one", "b"]}.items():
        documents = read_documents(tmp_path / f"out_{key}_document")
        assert [tokenizer.decode(ids) for ids in documents] == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--input", "missing.jsonl"], "must exist"),
        (["--input", "picture.png"], "must end in"),
        (["--input", "nothing*.jsonl"], "must match at least one file"),
        (["--input", "cut.jsonl.gz"], "ends too early"),
        (["--input", "ok.jsonl", "--workers", "0"], "workers must be at least 1"),
        (
            ["--input", "ok.jsonl", "--output-prefix", "ok.jsonl/x"],
            "output folder must be creatable",
        ),
    ],
)
def test_bad_arguments(tmp_path: Path, vocabulary: str, monkeypatch, arguments, words: str):
    monkeypatch.chdir(tmp_path)
    Path("ok.jsonl").write_text('{"text": "fine"}')
    Path("picture.png").write_bytes(b"png")
    whole = gzip.compress(os.urandom(5000).hex().encode())
    Path("cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=words):
        main(["--tokenizer-name-or-path", vocabulary, "--output-prefix", "out/x", *arguments])
    assert not Path("out").exists() or list(Path("out").iterdir()) == []


def test_one_tokenizer_option_is_required(tmp_path: Path, capsys):
    with pytest.raises(SystemExit):
        main(["--input", "x.jsonl", "--output-prefix", str(tmp_path / "x")])
    assert "--train-tokenizer" in capsys.readouterr().err


def test_kill_leaves_no_half_file_under_a_final_name(
    tmp_path: Path, vocabulary: str, documents: list[str]
):
    source = write_jsonl(tmp_path / "in.jsonl", documents * 3)
    command = [sys.executable, "-m", "mindspeed_llm", "preprocess", "--input", str(source)]
    command += ["--tokenizer-name-or-path", vocabulary, "--output-prefix", str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    partial = tmp_path / "out_text_document.bin.partial"
    while process.poll() is None and not (partial.exists() and partial.stat().st_size > 1_000_000):
        time.sleep(0.001)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    left = {path.name for path in tmp_path.iterdir()} - {"in.jsonl"}
    assert left and all(name.endswith(".partial") for name in left)

    prefix = run(tmp_path, vocabulary, source)  # a new run begins anew and clears up
    assert IndexedDataset(prefix).num_documents == 3 * len(documents)
    assert not list(tmp_path.glob("*.partial"))


def test_two_writers_of_one_prefix_do_not_mix(tmp_path: Path, vocabulary: str):
    import fcntl

    source = write_jsonl(tmp_path / "in.jsonl", ["one"])
    with (tmp_path / "out_text_document.bin.partial").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(DataError, match="another process is writing"):
            run(tmp_path, vocabulary, source)


def test_ctrl_c_ends_the_work(tmp_path: Path, vocabulary: str):
    from mindspeed_llm.data import _data

    def interrupt(progress: dict[str, int]) -> None:
        raise KeyboardInterrupt

    source = write_jsonl(tmp_path / "in.jsonl", ["some text"])
    options = _data.InputOptions([source], ["text"], 2, "file", 1 << 20, False, interrupt)
    with pytest.raises(KeyboardInterrupt):
        _data.preprocess(
            options, str(tmp_path / "out"), _data.Tokenizer.from_file(vocabulary), append_eod=True
        )
    assert {path.name for path in tmp_path.iterdir()} == {"in.jsonl"}


def test_example_script_is_the_command(tmp_path: Path, vocabulary: str):
    script = Path(__file__).resolve().parents[3] / "examples/llama2/preprocess_data.py"
    arguments = ["--tokenizer-name-or-path", vocabulary, "--output-prefix", str(tmp_path / "out")]
    source = write_jsonl(tmp_path / "in.jsonl", ["one", "two"])
    done = subprocess.run([sys.executable, script, "--input", source, *arguments], check=False)
    assert done.returncode == 0
    assert IndexedDataset(tmp_path / "out_text_document").num_documents == 2
    failed = subprocess.run(
        [sys.executable, script, "--input", tmp_path / "none.jsonl", *arguments],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert failed.returncode == 1
    assert failed.stderr.startswith("mindspeed: error: ") and failed.stderr.count("\n") == 1
