"""``mindspeed pretrain CONFIG [section.key=value ...]``."""

import argparse

from mindspeed_llm.config import TrainingArguments

DESCRIPTION = """Train a model as a YAML file says.

examples:
  mindspeed pretrain llama2.yaml
  mindspeed pretrain llama2.yaml training.lr=1e-4 training.output_dir=runs/second
  torchrun --nproc_per_node=2 -m mindspeed_llm pretrain llama2.yaml

A run goes on from the newest good checkpoint of training.output_dir (training.resume: auto).
Ctrl-C or SIGTERM finishes the step, saves and ends with code 130 or 143; a second one ends at once.
Several processes are started by torchrun, as above; data parallelism takes them all.
"""


def main(argv: list[str]) -> int:
    """Entry of ``mindspeed pretrain``."""
    parser = argparse.ArgumentParser(
        prog="mindspeed pretrain",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="`mindspeed info --config` lists every key with its default.",
    )
    parser.add_argument("config", metavar="CONFIG", help="YAML file")
    parser.add_argument(
        "overrides", nargs="*", metavar="section.key=value", help="laid over the file's values"
    )
    parsed = parser.parse_args(argv)
    args = TrainingArguments.from_yaml(parsed.config, parsed.overrides)
    args.refuse_untrained_layout()

    from mindspeed_llm.models import AutoModelForCausalLM
    from mindspeed_llm.trainer import Trainer

    model = AutoModelForCausalLM.from_config(
        args.model,
        parallel_config=args.parallel,
        use_flash_attention=args.model.use_flash_attention,
    )
    Trainer(model=model, args=args).train()
    return 0
