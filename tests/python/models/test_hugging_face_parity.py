"""Our LLaMA against transformers' on the same random weights: logits, every gradient, 50 AdamW steps, files."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM as HuggingFaceAutoModel
from transformers import LlamaConfig, LlamaForCausalLM

from mindspeed_llm.models import AutoModelForCausalLM

VARIANTS = {
    "mha": {},
    "gqa": {"num_key_value_heads": 2},
    "mqa_tied": {"num_key_value_heads": 1, "tie_word_embeddings": True},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "head_size_apart": {"head_dim": 16},
    "rope_linear": {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "rope_dynamic": {
        "rope_scaling": {"rope_type": "dynamic", "factor": 2.0},
        "max_position_embeddings": 24,
    },
    "rope_llama3": {
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
        "rope_theta": 500000.0,
    },
}


def make_reference(variant: str) -> LlamaForCausalLM:
    """A small transformers model with random weights, biases and norms included."""
    shape = {
        "vocab_size": 301,
        "hidden_size": 64,
        "intermediate_size": 152,
        "num_hidden_layers": 3,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "max_position_embeddings": 128,
    }
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**{**shape, **VARIANTS[variant]})).float()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.fixture(params=list(VARIANTS))
def pair(request: pytest.FixtureRequest, tmp_path: Path):
    reference = make_reference(request.param)
    reference.save_pretrained(tmp_path / "reference")
    return reference, AutoModelForCausalLM.from_pretrained(tmp_path / "reference")


def random_ids(length: int = 40) -> torch.Tensor:
    return torch.randint(0, 301, (2, length), generator=torch.Generator().manual_seed(1))


def test_parameter_names_are_transformers_names(pair):
    reference, ours = pair
    assert {name for name, _ in ours.named_parameters()} == {
        name for name, _ in reference.named_parameters()
    }


def test_logits_match(pair):
    reference, ours = pair
    input_ids = random_ids()
    with torch.no_grad():
        expected, actual = reference(input_ids).logits, ours(input_ids).logits
    assert (actual - expected).abs().max() < 2e-5


def test_every_gradient_matches(pair):
    reference, ours = pair
    input_ids = random_ids()
    labels = input_ids.clone()
    labels[0, :7] = -100
    expected = reference(input_ids, labels=labels).loss
    actual = ours(input_ids, labels=labels).loss
    assert actual.item() == pytest.approx(expected.item(), abs=1e-5)
    expected.backward()
    actual.backward()
    gradients = {name: parameter.grad for name, parameter in ours.named_parameters()}
    for name, parameter in reference.named_parameters():
        error = (gradients[name] - parameter.grad).norm() / parameter.grad.norm()
        assert error < 1e-4, f"{name}: relative gradient error {error:.2e}"


def test_fifty_adamw_steps_match(pair):
    reference, ours = pair
    optimizers = [
        torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1) for model in pair
    ]
    generator = torch.Generator().manual_seed(2)
    for step in range(50):
        input_ids = torch.randint(0, 301, (2, 32), generator=generator)
        losses = []
        for model, optimizer in zip((reference, ours), optimizers, strict=True):
            optimizer.zero_grad()
            loss = model(input_ids, labels=input_ids).loss
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], abs=1e-4), f"step {step}"


def test_save_pretrained_round_trips_bit_for_bit(pair, tmp_path: Path):
    reference, ours = pair
    ours.save_pretrained(tmp_path / "ours")
    loaded = HuggingFaceAutoModel.from_pretrained(tmp_path / "ours")
    assert type(loaded) is LlamaForCausalLM
    expected = dict(reference.named_parameters())
    for name, parameter in loaded.named_parameters():
        assert torch.equal(parameter, expected[name]), name
    with torch.no_grad():
        assert torch.equal(loaded(random_ids()).logits, reference(random_ids()).logits)


def test_greedy_generation_matches(pair):
    reference, ours = pair
    prompt = random_ids(9)[:1]
    expected = reference.generate(prompt, max_new_tokens=12, do_sample=False, eos_token_id=None)
    assert torch.equal(ours.generate(prompt, max_new_tokens=12), expected)


def test_right_padding_is_right_and_other_masks_are_refused(tmp_path: Path):
    reference = make_reference("gqa")
    reference.save_pretrained(tmp_path)
    ours = AutoModelForCausalLM.from_pretrained(tmp_path)
    input_ids = random_ids(12)
    mask = torch.ones_like(input_ids)
    mask[1, 8:] = 0
    with torch.no_grad():
        expected = reference(input_ids, attention_mask=mask).logits
    with torch.no_grad():
        actual = ours(input_ids, attention_mask=mask).logits
    kept = mask.bool()
    assert (actual[kept] - expected[kept]).abs().max() < 2e-5
    with pytest.raises(ValueError, match="right padding"):
        ours(input_ids, attention_mask=mask.flip(1))


def test_packed_documents_equal_separate_ones(tmp_path: Path):
    make_reference("gqa").save_pretrained(tmp_path)
    ours = AutoModelForCausalLM.from_pretrained(tmp_path)
    lengths = [5, 1, 17, 9]
    documents = [random_ids(length)[:1] for length in lengths]
    packed = torch.cat(documents, dim=1)
    bounds = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)
    positions = torch.cat([torch.arange(length) for length in lengths])
    with torch.no_grad():
        together = ours(packed, position_ids=positions, cu_seqlens=bounds).logits
        apart = torch.cat([ours(document).logits for document in documents], dim=1)
    assert (together - apart).abs().max() < 1e-5
