"""The YAML and the script that users were shown: the printed sizes build on meta with the right shapes."""

from pathlib import Path

import pytest
import torch

from mindspeed_llm import TrainingArguments
from mindspeed_llm.models import AutoModelForCausalLM

CONFIG = Path(__file__).resolve().parents[3] / "examples" / "llama2" / "llama2_config.yaml"


@pytest.mark.parametrize("rank", [0, 3, 4, 7])
def test_each_rank_of_the_printed_layout_has_its_shapes(rank: int, monkeypatch):
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", "8")
    args = TrainingArguments.from_yaml(str(CONFIG))
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            args.model, parallel_config=args.parallel, use_flash_attention=True
        )
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    first_layer = 0 if rank < 4 else 16  # two pipeline stages of four tensor ranks
    layers = {int(name.split(".")[2]) for name in shapes if ".layers." in name}
    assert layers == set(range(first_layer, first_layer + 16))
    prefix = f"model.layers.{first_layer}."
    assert shapes[prefix + "self_attn.q_proj.weight"] == (1024, 4096)
    assert shapes[prefix + "self_attn.o_proj.weight"] == (4096, 1024)
    assert shapes[prefix + "mlp.gate_proj.weight"] == (11008 // 4, 4096)
    assert shapes[prefix + "mlp.down_proj.weight"] == (4096, 11008 // 4)
    assert shapes[prefix + "input_layernorm.weight"] == (4096,)
    assert ("model.embed_tokens.weight" in shapes) == (rank < 4)
    assert ("lm_head.weight" in shapes) == (rank >= 4)


def test_one_process_holds_llama2_7b_in_all(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    args = TrainingArguments.from_yaml(
        str(CONFIG), overrides=["parallel.tensor_parallel=1", "parallel.pipeline_parallel=1"]
    )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(args.model, parallel_config=args.parallel)
    assert model.num_parameters() == 6_738_415_616
