"""Bad input: one clear line, exit code 1, nothing half-written."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import write_corpus

from command import assert_one_clear_line, mindspeed
from run_folder import assert_same_run, losses


def nothing_was_trained(folder: Path) -> bool:
    return not (folder / "run" / "metrics.jsonl").exists()


def test_a_misspelt_key(config: Path, tmp_path: Path):
    config.write_text(config.read_text().replace("seq_len", "sequence_len"))
    line = 1 + config.read_text().splitlines().index('  "sequence_len": 32,')
    result = mindspeed("pretrain", config)
    assert_one_clear_line(
        result, f"{config}:{line}: training.sequence_len", "did you mean training.seq_len?"
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("training.seq_len=long", "training.seq_len must be a whole number, got 'long'"),
        ("model.num_attention_heads=5", "(5) must divide model.hidden_size (32); use 4"),
        ("training.batch_size=-4", "training.batch_size must be at least 1, got -4"),
        ("parallel.tensor_parallel=2", "parallel.tensor_parallel must be 1 for training, got 2"),
        ("model.use_flash_attention=false", "model.use_flash_attention must be true"),
        ("data.train=", "data.train must be given"),
    ],
)
def test_a_bad_value(override: str, words: str, config: Path, tmp_path: Path):
    result = mindspeed("pretrain", config, override)
    assert_one_clear_line(result, words)
    assert not (tmp_path / "run").exists()


def test_a_missing_data_file(config: Path, tmp_path: Path):
    result = mindspeed("pretrain", config, f"data.train={tmp_path}/nowhere")
    assert_one_clear_line(result, "data.train", f"{tmp_path}/nowhere", "mindspeed preprocess")
    assert nothing_was_trained(tmp_path)


def test_a_missing_tokenizer(config: Path, tmp_path: Path):
    result = mindspeed("pretrain", config, f"data.tokenizer={tmp_path}/nowhere.json")
    assert_one_clear_line(result, "data.tokenizer", f"{tmp_path}/nowhere.json")
    assert nothing_was_trained(tmp_path)


def test_an_empty_corpus(config: Path, tmp_path: Path):
    prefix = write_corpus(tmp_path / "empty", [])
    result = mindspeed("pretrain", config, f"data.train={prefix}")
    assert_one_clear_line(result, "data.train", str(prefix))
    assert nothing_was_trained(tmp_path)


def test_a_corpus_shorter_than_one_sequence(config: Path, tmp_path: Path):
    prefix = write_corpus(tmp_path / "short", [np.arange(20)])
    result = mindspeed("pretrain", config, f"data.train={prefix}")
    assert_one_clear_line(result, "data.train", str(prefix), "20", "training.seq_len")
    assert nothing_was_trained(tmp_path)


def test_tokens_that_the_model_does_not_have(config: Path, tmp_path: Path):
    result = mindspeed("pretrain", config, "model.vocab_size=32")
    assert_one_clear_line(result, "model.vocab_size (32)", "data.train")
    assert nothing_was_trained(tmp_path)


def test_an_output_folder_that_cannot_be_written(config: Path, tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    result = mindspeed("pretrain", config, f"training.output_dir={tmp_path}/file/run")
    assert_one_clear_line(result, "training.output_dir must be a folder that can be written")


@pytest.mark.parametrize("damage", ["truncated", "a bit flipped"])
def test_a_damaged_checkpoint_is_passed_over_and_named(damage: str, config: Path, tmp_path: Path):
    where = f"training.output_dir={tmp_path}/straight"
    assert mindspeed("pretrain", config, where).returncode == 0
    assert mindspeed("pretrain", config, "training.max_steps=6").returncode == 0
    newest = tmp_path / "run" / "checkpoints" / "step_00000006"
    weights = next(newest.glob("*.safetensors"))
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content[: len(content) // 2] if damage == "truncated" else content)
    result = mindspeed("pretrain", config)
    assert result.returncode == 0, result.stderr
    notes = [line for line in result.stdout.splitlines() if line.startswith("note: passed over")]
    assert len(notes) == 1 and "step_00000006" in notes[0]
    assert "step 4 of" in " ".join(result.stdout.split())
    assert_same_run(tmp_path / "run", tmp_path / "straight")


def test_a_damaged_checkpoint_that_was_asked_for(config: Path, tmp_path: Path):
    assert mindspeed("pretrain", config, "training.max_steps=2").returncode == 0
    folder = tmp_path / "run" / "checkpoints" / "step_00000002"
    os.truncate(next(folder.glob("*.safetensors")), 100)
    result = mindspeed("pretrain", config, f"training.resume={folder}")
    assert_one_clear_line(result, "training.resume", "step_00000002")


def test_another_model_than_the_checkpoint_holds(config: Path):
    assert mindspeed("pretrain", config, "training.max_steps=2").returncode == 0
    result = mindspeed("pretrain", config, "model.num_layers=3")
    assert_one_clear_line(result, "num_layers 2, the configuration 3")


def test_a_full_disk_leaves_the_last_good_checkpoint(config: Path, tmp_path: Path):
    where = f"training.output_dir={tmp_path}/straight"
    assert mindspeed("pretrain", config, where).returncode == 0
    assert mindspeed("pretrain", config, "training.max_steps=3").returncode == 0
    checkpoints = tmp_path / "run" / "checkpoints"
    before = sorted(path.name for path in checkpoints.iterdir())
    # files of at most 40 kB: a checkpoint is larger, everything else smaller
    result = subprocess.run(
        [sys.executable, "-m", "mindspeed_llm", "pretrain", str(config)],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000)),
    )
    assert_one_clear_line(result, "the checkpoint was not written", str(checkpoints))
    assert sorted(path.name for path in checkpoints.iterdir()) == before
    assert mindspeed("pretrain", config).returncode == 0
    assert_same_run(tmp_path / "run", tmp_path / "straight")


def test_resume_never_sets_the_earlier_run_aside(config: Path, tmp_path: Path):
    assert mindspeed("pretrain", config, "training.max_steps=3").returncode == 0
    result = mindspeed("pretrain", config, "training.resume=never", "training.max_steps=2")
    assert result.returncode == 0, result.stderr
    assert set(losses(tmp_path / "run")) == {1, 2}
    assert set(losses(tmp_path / "run" / "earlier-1")) == {1, 2, 3}


@pytest.mark.parametrize("variable", ["ASCEND_GLOBAL_LOG_LEVEL", "HCCL_CONNECT_TIMEOUT"])
def test_a_bad_environment_variable(variable: str, config: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(variable, "soon")
    assert_one_clear_line(mindspeed("pretrain", config), variable, "'soon'")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("generate", "--prompt", "x", "--checkpoint"), "it holds no good checkpoint"),
        (("convert",), "it holds no good checkpoint"),
    ],
)
def test_a_folder_without_a_model(arguments: tuple[str, ...], words: str, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    extra = [tmp_path / "target"] if arguments[0] == "convert" else []
    assert_one_clear_line(mindspeed(*arguments, tmp_path / "empty", *extra), words)
