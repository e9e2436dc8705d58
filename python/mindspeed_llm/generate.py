"""``mindspeed generate``: continue a prompt with a checkpoint or a Hugging Face folder."""

import argparse
from pathlib import Path

import torch

from mindspeed_llm.data import Tokenizer
from mindspeed_llm.errors import ConfigError
from mindspeed_llm.load_model import load_model


def main(argv: list[str]) -> int:
    """Entry of ``mindspeed generate``."""
    parser = argparse.ArgumentParser(prog="mindspeed generate", description=__doc__)
    parser.add_argument(
        "--checkpoint",
        type=Path,
        required=True,
        metavar="DIR",
        help="a run's output folder (its newest checkpoint), one checkpoint, or a Hugging Face folder",
    )
    parser.add_argument("--prompt", required=True, help="the text to continue")
    parser.add_argument(
        "--tokenizer", type=Path, metavar="FILE", help="tokenizer.json; default: the run's own"
    )
    parser.add_argument("--max-new-tokens", type=int, default=100, metavar="N")
    parser.add_argument(
        "--temperature", type=float, default=0.8, help="0: always the likeliest token"
    )
    parser.add_argument("--top-k", type=int, default=50, help="0: off")
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parsed = parser.parse_args(argv)
    print(
        generate_text(
            parsed.checkpoint,
            parsed.prompt,
            parsed.tokenizer,
            parsed.max_new_tokens,
            parsed.temperature,
            parsed.top_k,
            parsed.top_p,
            parsed.seed,
        )
    )
    return 0


def generate_text(
    folder: Path,
    prompt: str,
    tokenizer_file: Path | None = None,
    max_new_tokens: int = 100,
    temperature: float = 0.8,
    top_k: int = 50,
    top_p: float = 1.0,
    seed: int = 0,
) -> str:
    """The prompt and its continuation.

    Raises:
        ConfigError: no tokenizer, an empty prompt, or tokens that the model does not have.
    """
    model = load_model(folder)
    tokenizer = Tokenizer.from_file(str(tokenizer_file or _find_tokenizer(folder)))
    ids = tokenizer.encode(prompt)
    vocabulary = model.spec["vocab_size"]
    if len(ids) == 0:
        raise ConfigError("--prompt must hold at least one token, got an empty text")
    if max(ids) >= vocabulary:
        raise ConfigError(
            f"the tokenizer gives token {max(ids)}, the model has {vocabulary}; give the tokenizer"
            " it was trained with by --tokenizer"
        )
    torch.manual_seed(seed)
    tokens = model.generate(
        torch.tensor([list(ids)]),
        max_new_tokens=max_new_tokens,
        temperature=temperature if temperature > 0 else 1.0,
        top_k=top_k,
        top_p=top_p,
        do_sample=temperature > 0,
    )
    return str(tokenizer.decode(tokens[0].tolist()))


def _find_tokenizer(folder: Path) -> Path:
    for place in (folder, *folder.resolve().parents[:2]):
        if (place / "tokenizer.json").is_file():
            return place / "tokenizer.json"
    raise ConfigError(f"{folder}: no tokenizer.json there or above; give it by --tokenizer")
