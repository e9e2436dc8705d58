"""The configuration: strict, typed, with messages that name file, line and the nearest right key."""

from pathlib import Path

import pytest
import torch

from mindspeed_llm import TrainingArguments
from mindspeed_llm.config_checks import Problem, micro_batch_size
from mindspeed_llm.config_errors import known_keys
from mindspeed_llm.errors import ConfigError
from mindspeed_llm.presets import model_types

REPOSITORY = Path(__file__).resolve().parents[3]
PRINTED = REPOSITORY / "examples" / "llama2" / "llama2_config.yaml"


def test_the_printed_file_reads_as_printed():
    args = TrainingArguments.from_yaml(PRINTED)
    assert (args.model.type, args.model.hidden_size, args.model.num_layers) == ("llama2", 4096, 32)
    assert (args.model.num_attention_heads, args.model.intermediate_size) == (32, 11008)
    assert args.model.use_flash_attention is True
    assert (args.parallel.tensor_parallel, args.parallel.pipeline_parallel) == (4, 2)
    assert args.parallel.fsdp is True
    assert (args.training.batch_size, args.training.seq_len) == (64, 4096)
    assert args.training.lr == 3e-4 and isinstance(args.training.lr, float)
    assert args.training.weight_decay == 0.01


def test_an_unknown_key_names_line_and_nearest_key(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("llama2_config.yaml").write_text(
        "model:\n  type: llama2\n\n\ntraining:\n  lr: 3e-4\n  sequence_len: 128\n"
    )
    with pytest.raises(ConfigError) as caught:
        TrainingArguments.from_yaml("llama2_config.yaml")
    assert str(caught.value) == (
        "llama2_config.yaml:7: training.sequence_len is not a known key; did you mean training.seq_len?"
    )


# override -> what the message must say
BAD = {
    "training.hidden_size=64": "did you mean model.hidden_size?",
    "training.learning_rate=1": "did you mean training.lr?",
    "data.train=[{path: a, wieght: 2}]": "data.train[0].wieght is not a known key; did you mean"
    " data.train.weight?",
    "optimiser.lr=1": "optimiser is not a known key; did you mean training.optimizer?",
    "training.seq_len=long": "training.seq_len must be a whole number, got 'long'",
    "training.seq_len=12.5": "training.seq_len must be a whole number, got 12.5",
    "training.seq_len=true": "training.seq_len must be a whole number, got true",
    "training.seq_len=0": "training.seq_len must be at least 1, got 0",
    "training.lr=fast": "training.lr must be a number, got 'fast'",
    "training.lr=.nan": "training.lr must be a finite number",
    "training.lr=-1": "training.lr must be greater than 0, got -1",
    "training.lr_schedule=cosin": "must be one of constant, cosine, linear or wsd, got 'cosin'",
    "parallel.fsdp=yes": "parallel.fsdp must be true or false, got 'yes'",
    "training=3": "training must be a section of keys, got 3",
    "model.type=llama2-7": "model.type must name a family or a preset, got 'llama2-7'; did you mean"
    " llama2-7b, ",
    "model.rope_scaling={type: linear}": "model.rope_scaling.factor must be given",
    "model.rope_scaling={type: yarn, factor: 2}": "must be one of linear, dynamic or llama3",
    "model.num_attention_heads=7": "model.num_attention_heads (7) must divide model.hidden_size"
    " (4096); use 8",
    "model.num_key_value_heads=5": "model.num_key_value_heads (5) must divide"
    " model.num_attention_heads (32); use 4",
    "model.max_position_embeddings=12": "training.seq_len (4096) must be at most"
    " model.max_position_embeddings (12)",
    "training.micro_batch_size=7": "training.micro_batch_size (7) must divide training.batch_size"
    " (64); use 8",
    "training.warmup_steps=2000": "training.warmup_steps (2000) must be at most training.max_steps"
    " (1000)",
    "training.min_lr=1": "training.min_lr (1) must be at most training.lr (0.0003)",
    "parallel.pipeline_parallel=33": "parallel.pipeline_parallel (33) must be at most model.num_layers"
    " (32)",
    "parallel.tensor_parallel=5": "parallel.tensor_parallel (5) must divide",
    "training.lr=[": "not valid YAML",
    "nonsense": "an override must be section.key=value, got 'nonsense'",
}


@pytest.mark.parametrize("override", BAD)
def test_a_bad_value_is_one_clear_line(override: str):
    with pytest.raises(ConfigError) as caught:
        TrainingArguments.from_yaml(PRINTED, [override])
    message = str(caught.value)
    assert BAD[override] in message
    assert "\n" not in message
    assert message.startswith(("command line", str(PRINTED)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model: [1", "bad.yaml:2: not valid YAML"),
        ("model: {hidden_size: 1}\nmodel: {}", 'duplicate key "model"'),
        ("- 1", "the file must hold"),
    ],
)
def test_a_broken_file_is_one_clear_line(tmp_path: Path, monkeypatch, text: str, words: str):
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text(text + "\n")
    with pytest.raises(ConfigError) as caught:
        TrainingArguments.from_yaml("bad.yaml")
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_file_is_named():
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: no such configuration file"):
        TrainingArguments.from_yaml("nowhere.yaml")


def test_a_number_written_the_yaml_1_1_way_arrives_as_number():
    args = TrainingArguments.model_validate({"training": {"lr": "3e-4", "max_steps": 1e3}})
    assert args.training.lr == 3e-4
    assert args.training.max_steps == 1000 and isinstance(args.training.max_steps, int)


def test_a_written_value_wins_over_the_preset():
    args = TrainingArguments.from_yaml(PRINTED, ["model.type=llama2-70b", "model.num_layers=2"])
    # the printed file writes hidden_size and heads itself
    assert (args.model.hidden_size, args.model.num_layers) == (4096, 2)
    assert (args.model.num_key_value_heads, args.model.intermediate_size) == (8, 28672)


@pytest.mark.parametrize(
    ("batch", "micro", "processes", "expected"),
    [
        (64, None, 8, 2),  # 8192 tokens of 4096 each
        (6, None, 2, 1),  # 3 a process: 2 would not divide it
        (64, 4, 2, 4),
        (64, 4, 3, "must be a multiple of the number of data parallel processes (3); use 66"),
        (16, 4, 8, "must be a multiple of training.micro_batch_size x processes (4 x 8); use 32"),
    ],
)
def test_the_batch_is_shared_or_the_cure_is_named(
    batch: int, micro: int | None, processes: int, expected: int | str
):
    args = TrainingArguments.from_yaml(
        PRINTED,
        [
            f"training.batch_size={batch}",
            f"training.micro_batch_size={'null' if micro is None else micro}",
        ],
    )
    answer = micro_batch_size(args, processes)
    if isinstance(expected, int):
        assert answer == expected
    else:
        assert isinstance(answer, Problem) and expected in answer.text


# published parameter counts, from the makers' model cards and weight files
PRESETS = {
    "llama-7b": 6_738_415_616,
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3.2-1b": 1_235_814_400,
}


def test_every_preset_is_checked():
    assert set(PRESETS) == {name for name in model_types() if "-" in name}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_the_published_size(name: str):
    from mindspeed_llm.models import AutoModelForCausalLM

    args = TrainingArguments.model_validate({"model": {"type": name}})
    with torch.device("meta"):
        assert AutoModelForCausalLM.from_config(args.model).num_parameters() == PRESETS[name]


def test_every_key_is_documented_in_the_committed_table():
    from mindspeed_llm.config_table import config_table

    committed = (REPOSITORY / "docs" / "configuration.md").read_text()
    assert committed.strip() == config_table().strip(), (
        "run: python -m mindspeed_llm.config_table > docs/configuration.md"
    )
    assert "|  |" not in committed


def test_a_new_key_is_a_decision():
    """A budget: adding a key means editing this number in the same commit."""
    assert len(known_keys(TrainingArguments)) == 66
