"""patch(): a transformers model gives the same logits, loss and gradients on our operators."""

import copy

import pytest
import torch
import transformers

from mindspeed_core.patching import patch

SMALL = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "attn_implementation": "eager",
}
FAMILIES = {
    "llama": (transformers.LlamaConfig, {}),
    "mistral, window": (transformers.MistralConfig, {"sliding_window": 7}),
    "qwen2": (transformers.Qwen2Config, {}),
    "qwen3": (transformers.Qwen3Config, {}),
    "gemma": (transformers.GemmaConfig, {}),
    "gemma2, window and soft-cap": (transformers.Gemma2Config, {"sliding_window": 5}),
}


def build(family: str) -> transformers.PreTrainedModel:
    kind, extra = FAMILIES[family]
    torch.manual_seed(3)
    model = transformers.AutoModelForCausalLM.from_config(kind(**SMALL, **extra))
    for name, parameter in model.named_parameters():  # norms away from their neutral start
        if "norm" in name:
            torch.nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.2)
    return model.train()


def run(model: transformers.PreTrainedModel, **inputs: torch.Tensor):
    output = model(**inputs)
    output.loss.backward()
    return output, {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("family", FAMILIES)
def test_same_logits_loss_and_gradients(family: str):
    model = build(family)
    fast = copy.deepcopy(model)
    patched = patch(fast)
    assert patched.norms >= 7 and patched.mlps == 3 and patched.attention and patched.loss
    ids = torch.randint(1, 97, (2, 24))
    labels = ids.clone()
    labels[0, :5] = -100
    expected, expected_gradients = run(model, input_ids=ids, labels=labels)
    actual, gradients = run(fast, input_ids=ids, labels=labels)
    assert torch.allclose(actual.logits, expected.logits, atol=2e-5, rtol=0)
    assert actual.loss.item() == pytest.approx(expected.loss.item(), rel=1e-6)
    for name, gradient in gradients.items():
        error = (gradient - expected_gradients[name]).norm() / expected_gradients[name].norm()
        assert error < 1e-4, f"{name}: {error:.2e}"


@pytest.mark.parametrize("family", ["llama", "mistral, window"])
def test_padding_and_packed_positions_are_not_ignored(family: str):
    model = build(family).eval()
    fast = copy.deepcopy(model)
    patch(fast)
    ids = torch.randint(1, 97, (2, 12))
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 0, 1]]).expand(2, -1)
    for inputs in ({"attention_mask": mask}, {"position_ids": positions}):
        expected = model(input_ids=ids, **inputs).logits
        actual = fast(input_ids=ids, **inputs).logits
        kept = mask.bool() if "attention_mask" in inputs else torch.ones_like(ids).bool()
        assert torch.allclose(actual[kept], expected[kept], atol=2e-5, rtol=0)


def test_generation_with_a_cache_is_the_same():
    model = build("llama").eval()
    fast = copy.deepcopy(model)
    patch(fast)
    ids = torch.randint(1, 97, (1, 5))
    expected = model.generate(ids, max_new_tokens=8, do_sample=False)
    assert torch.equal(fast.generate(ids, max_new_tokens=8, do_sample=False), expected)


def test_a_saved_model_is_the_user_s_own(tmp_path):
    model = build("llama")
    patch(model)
    model.save_pretrained(tmp_path)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    for (name, ours), (_, theirs) in zip(
        model.named_parameters(), again.named_parameters(), strict=True
    ):
        assert torch.equal(ours, theirs), name


def test_what_it_does_not_know_is_refused():
    with pytest.raises(ValueError, match="takes a transformers model, got Linear"):
        patch(torch.nn.Linear(2, 2))
    config = transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=11)
    with pytest.raises(ValueError, match="nothing in GPT2LMHeadModel is known"):
        patch(transformers.GPT2LMHeadModel(config))
