"""The command ``mindspeed``. Errors of the user's making are one line on stderr and exit code 1."""

import argparse
import sys
from collections.abc import Callable
from importlib import import_module

from mindspeed_llm.errors import UserError, print_error

# name: (module with main(argv), what it does); modules load on use, so `preprocess` needs no torch
COMMANDS = {
    "pretrain": ("mindspeed_llm.pretrain", "train a model as a YAML file says"),
    "preprocess": ("mindspeed_llm.preprocess", "turn text into a vocabulary and token files"),
    "generate": ("mindspeed_llm.generate", "continue a prompt with a trained model"),
    "convert": ("mindspeed_llm.convert", "Hugging Face folder to checkpoint and back"),
    "bench": ("mindspeed_llm.bench", "measure operators or training side by side"),
    "info": ("mindspeed_llm.info", "check this installation; --config lists every key"),
}
EPILOG = """`mindspeed COMMAND --help` tells more.
Over several processes: torchrun --nproc_per_node=N -m mindspeed_llm pretrain CONFIG"""


def main(argv: list[str] | None = None) -> int:
    """Entry of ``mindspeed`` and of ``python -m mindspeed_llm``; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(
        prog="mindspeed",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Training acceleration for large models.\n\ncommands:\n"
        + "\n".join(f"  {name:<12}{text}" for name, (_, text) in COMMANDS.items()),
        epilog=EPILOG,
    )
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND")
    parsed = parser.parse_args(arguments[:1])
    try:
        run: Callable[[list[str]], int] = import_module(COMMANDS[parsed.command][0]).main
        return run(arguments[1:])
    except UserError as error:
        print_error(error)
        return 1
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:  # before training began; later Interruption handles it
        return 130
