"""``mindspeed bench {ops,train,data}``: measurements side by side, as JSON."""

import argparse
from importlib import import_module

SUBJECTS = {
    "ops": "mindspeed_core.bench_ops",
    "train": "mindspeed_llm.bench_train.command",
    "data": "mindspeed_llm.bench_data.command",
}


def main(argv: list[str]) -> int:
    """Entry of ``mindspeed bench``."""
    parser = argparse.ArgumentParser(
        prog="mindspeed bench",
        description=__doc__,
        epilog="`mindspeed bench SUBJECT --help` tells more",
    )
    parser.add_argument("subject", choices=SUBJECTS)
    parsed = parser.parse_args(argv[:1])
    return int(import_module(SUBJECTS[parsed.subject]).main(argv[1:]))
