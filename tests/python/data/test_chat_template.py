"""Chat templates against transformers, and in their sandbox."""

import json
from pathlib import Path

import pytest

from mindspeed_llm.data import DataError, Tokenizer

TEMPLATE = """{%- if tools %}{{ tools | tojson }}{% endif %}
{% for message in messages %}
    {%- if message.role not in ("system", "user", "assistant") %}
        {{- raise_exception("unknown role " + message.role) }}
    {%- endif %}
    {%- if loop.index > 5 %}{% break %}{% endif %}
{{ bos_token if loop.first }}<|{{ message["role"] }}|>
{{ message["content"] | trim }}{{ eos_token }}
{% endfor %}
{% if add_generation_prompt %}<|assistant|>
{% endif %}"""
MESSAGES = [
    {"role": "system", "content": "  Be brief. <b>&é"},
    {"role": "user", "content": "Hello\n\nthere"},
    {"role": "assistant", "content": "Hi"},
]


@pytest.fixture
def folder(vocabulary: str, tmp_path: Path) -> Path:
    (tmp_path / "tokenizer.json").write_text(Path(vocabulary).read_text())
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|endoftext|>",
        "eos_token": {"content": "<|endoftext|>", "__type": "AddedToken"},
        "chat_template": TEMPLATE,
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


@pytest.mark.parametrize("prompt", [False, True])
@pytest.mark.parametrize("tools", [None, [{"name": "f", "text": "<é>"}]])
def test_renders_and_encodes_as_transformers(folder: Path, prompt: bool, tools):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ours = Tokenizer.from_pretrained(folder)
    options = {"add_generation_prompt": prompt, "tools": tools}
    text = theirs.apply_chat_template(MESSAGES, tokenize=False, **options)
    assert ours.render_chat(MESSAGES, **options) == text
    assert ours.encode_chat(MESSAGES, **options) == theirs(text)["input_ids"]


def test_templates_by_name_and_in_their_own_file(folder: Path):
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    config["chat_template"] = [{"name": "short", "template": "{{ messages | length }}"}]
    path.write_text(json.dumps(config))
    ours = Tokenizer.from_pretrained(folder)
    assert ours.render_chat(MESSAGES, template="short") == "3"
    with pytest.raises(DataError, match="must have one named default, got short"):
        ours.render_chat(MESSAGES)
    (folder / "chat_template.jinja").write_text("own {{ eos_token }}")
    assert ours.render_chat(MESSAGES) == "own <|endoftext|>"
    (folder / "chat_template.jinja").unlink()
    path.unlink()
    with pytest.raises(DataError, match="is this a base model"):
        ours.render_chat(MESSAGES)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ raise_exception('no tools here') }}", "no tools here"),
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe|not safely callable"),
        ("{% for %}", "must be a Jinja template"),
    ],
)
def test_what_a_template_may_not_do(folder: Path, template: str, words: str):
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(DataError, match=words):
        Tokenizer.from_pretrained(folder).render_chat(MESSAGES)
