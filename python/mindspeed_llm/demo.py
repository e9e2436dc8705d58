"""``make demo``: text to a trained model in minutes, each stage by the command that a user would type.

Preprocess, vocabulary, a run in one process, a run in two processes that goes on from its checkpoint, text.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean

from mindspeed_llm.errors import TrainingError, UserError, print_error
from mindspeed_llm.metrics import read_metrics

CORPUS = Path("examples/corpus/austen.jsonl.gz")
CONFIG = Path("examples/demo/demo.yaml")
FOLDER = Path("demo")
FIRST_STEPS = 800  # in one process; the rest in two
VOCABULARY = 512
PROMPT = "Elizabeth was surprised to"
LAST = 20  # steps over which the final loss is averaged


def main() -> int:
    """Run every stage; exit code 1 with one line when one fails."""
    try:
        for path in (CORPUS, CONFIG):
            if not path.is_file():
                raise UserError(f"{path}: no such file; run the demo from the repository's root")
        began = time.monotonic()
        run_stages()
        print(f"\nThe demo took {time.monotonic() - began:.0f} s.")
        return 0
    except UserError as error:
        print_error(error)
        return 1


def run_stages() -> None:
    """The stages in order."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "data").mkdir(parents=True)
    prefix = FOLDER / "data" / "austen"
    stage("1. Text to a vocabulary and to token files")
    mindspeed(
        "preprocess", "--input", CORPUS, "--train-tokenizer", VOCABULARY, "--output-prefix", prefix
    )
    stage("2. Pretrain in one process")
    mindspeed(
        "pretrain", CONFIG, f"training.max_steps={FIRST_STEPS}", "training.lr_schedule=constant"
    )
    stage("3. Go on from its checkpoint in two processes")
    launch([*torchrun(2), "-m", "mindspeed_llm", "pretrain", str(CONFIG)])
    stage("4. Let it write")
    mindspeed(
        "generate", "--checkpoint", FOLDER / "run", "--prompt", PROMPT, "--max-new-tokens", "80"
    )
    compare_with_bigrams(Path(f"{prefix}_text_document"))
    stage("What is left")
    for path, text in [
        (FOLDER / "run" / "checkpoints", "checkpoints"),
        (FOLDER / "run" / "metrics.jsonl", "one line a step"),
        (FOLDER / "run" / "tensorboard", "TensorBoard events"),
        (FOLDER / "run" / "report.html", "loss, throughput and memory curves; where the time went"),
        (FOLDER / "data", "vocabulary and token files"),
    ]:
        print(f"  {path!s:<24} {text}")


def compare_with_bigrams(prefix: Path) -> None:
    """Print the loss of the best bigram model of the same tokens, and the model's.

    Raises:
        TrainingError: the model did not get below.
    """
    from mindspeed_llm.data import PackedDataset, Tokenizer
    from mindspeed_llm.data.bigram import bigram_loss

    end_of_text = Tokenizer.from_file(prefix.parent / "tokenizer.json").eos_token_id
    tokens = PackedDataset(prefix, seq_len=1)
    baseline = bigram_loss(tokens, VOCABULARY, -1 if end_of_text is None else end_of_text)
    losses = [line["loss"] for line in read_metrics(FOLDER / "run" / "metrics.jsonl")]
    reached = mean(losses[-LAST:])
    print(f"\nloss of a bigram model  {baseline:.3f} nats a token")
    print(
        f"loss of this model      {reached:.3f} (mean of the last {LAST} steps; began at {losses[0]:.3f})"
    )
    if reached >= baseline:
        raise TrainingError("the model must get below the bigram model's loss; it did not")


def stage(title: str) -> None:
    """Print a heading."""
    print(f"\n=== {title}", flush=True)


def mindspeed(*arguments: object) -> None:
    """Run the command ``mindspeed``."""
    launch([sys.executable, "-m", "mindspeed_llm", *map(str, arguments)])


def torchrun(processes: int) -> list[str]:
    """The launcher for this machine alone."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*launcher, f"--nproc_per_node={processes}"]


def launch(command: list[str]) -> None:
    """Show and run a command.

    Raises:
        TrainingError: it failed.
    """
    shown = " ".join(command[1:]).replace("-m mindspeed_llm", "mindspeed", 1)
    if "torch.distributed.run" in shown:
        shown = "torchrun --nproc_per_node=2 -m mindspeed_llm " + shown.partition("mindspeed ")[2]
    print(f"$ {shown}", flush=True)
    environment = {**os.environ}
    if "torch.distributed.run" in command:
        environment.setdefault("OMP_NUM_THREADS", "1")  # says so instead of torchrun's warning
    code = subprocess.run(command, env=environment).returncode
    if code != 0:
        raise TrainingError(f"`{shown}` ended with exit code {code}; see above")


if __name__ == "__main__":
    sys.exit(main())
