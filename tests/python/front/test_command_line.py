"""The command: help, info, and the way from a run to text and to a Hugging Face folder and back."""

from pathlib import Path

import pytest
import torch

from mindspeed_llm import Trainer, TrainingArguments
from mindspeed_llm.command_line import COMMANDS, main
from mindspeed_llm.data import Tokenizer
from mindspeed_llm.load_model import load_model
from mindspeed_llm.models import AutoModelForCausalLM


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert all(command in printed for command in COMMANDS)


def test_help_of_pretrain_shows_how_to_start_it(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["pretrain", "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "torchrun" in printed and "section.key=value" in printed and "resume" in printed


def test_info_finds_this_installation_well(capsys: pytest.CaptureFixture[str]):
    code = main(["info"])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert "all is well" in printed and "BAD" not in printed


def test_info_says_what_is_wrong_and_how_to_mend_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["info"]) == 1
    printed = capsys.readouterr().out
    assert "BAD compiler" in printed and "mend: apt-get install g++" in printed


@pytest.fixture
def text_run(tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run on a few lines of text, with a vocabulary of its own."""
    monkeypatch.chdir(tmp_path)
    Path("lines.txt").write_text("the cat sat on the mat and the dog sat on the log\n" * 60)
    arguments = ["preprocess", "--input", "lines.txt", "--text-documents", "line"]
    arguments += ["--train-tokenizer", "300", "--output-prefix", str(tmp_path / "text")]
    assert main(arguments) == 0
    args = TrainingArguments.from_yaml(
        config,
        [
            f"data.train={tmp_path}/text_text_document",
            f"data.tokenizer={tmp_path}/tokenizer.json",
            "model.vocab_size=300",
        ],
    )
    Trainer(AutoModelForCausalLM.from_config(args.model), args).train()
    return tmp_path / "run"


def test_a_run_generates_text_and_goes_to_hugging_face_and_back(
    text_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    capsys.readouterr()
    arguments = ["generate", "--checkpoint", str(text_run), "--prompt", "the cat"]
    assert main([*arguments, "--max-new-tokens", "5"]) == 0
    assert capsys.readouterr().out.startswith("the cat")

    folder, back = tmp_path / "hugging_face", tmp_path / "back"
    assert main(["convert", str(text_run), str(folder)]) == 0
    assert Tokenizer.from_file(folder / "tokenizer.json").vocab_size <= 300
    assert main(["convert", str(folder), str(back)]) == 0
    trained = dict(load_model(text_run).named_parameters())
    for other in (folder, back):
        for name, tensor in load_model(other).named_parameters():
            assert torch.equal(tensor, trained[name]), name


def test_convert_writes_into_no_folder_that_holds_something(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    assert main(["convert", str(tmp_path), str(tmp_path / "full")]) == 1
    assert "must be empty or not exist" in capsys.readouterr().err
