"""The command `mindspeed bench data` on a corpus of three documents."""

import json
from pathlib import Path

import pytest

from mindspeed_llm.bench_data import command, encoding


def test_rows_say_whether_the_ids_are_right(
    vocabulary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    for name in ("corpus", "vocab"):
        (tmp_path / name).mkdir()
    for corpus in ("en", "zh", "code"):
        path = tmp_path / "corpus" / f"{corpus}.jsonl"
        path.write_text('{"text": "one two"}\n{"text": "中文"}\n{"text": ""}\n', encoding="utf-8")
    for name in ("right.json", "wrong.json"):
        content = json.loads(Path(vocabulary).read_text())
        content["added_tokens"] = []
        if name == "wrong.json":
            content["model"]["merges"] = []
        (tmp_path / "vocab" / name).write_text(json.dumps(content))
    vocabularies = {
        "right": ("right.json", "tokenizers", "right.json", None),
        "wrong": ("right.json", "tokenizers", "wrong.json", None),
    }
    monkeypatch.setattr(encoding, "VOCABULARIES", vocabularies)
    monkeypatch.setattr(encoding, "find_spec", lambda name: None)  # no peers
    output = tmp_path / "bench.json"
    assert command.main(["--json", str(output), "--corpora", str(tmp_path), "--rounds", "1"]) == 0
    rows = [row for row in json.loads(output.read_text())["rows"] if row["subject"] == "encoding"]
    ours = [row for row in rows if row["library"] == "mindspeed"]
    assert [row["right"] for row in ours] == [True, False] * 3
    assert all(len(line) <= 80 for line in capsys.readouterr().out.splitlines()[:-1])


def test_a_folder_without_corpora_is_named(tmp_path: Path, capsys):
    with pytest.raises(SystemExit):
        command.main(["--json", "x.json", "--corpora", str(tmp_path)])
    assert "without corpus and vocab" in capsys.readouterr().err
