"""``mindspeed preprocess``: JSONL, JSON or text (also .gz) to token files; trains a vocabulary on request."""

import argparse
import glob
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mindspeed_llm.data import DataError, _data, cleaning

END_OF_TEXT = "<|endoftext|>"
EPILOG = """\
Writes PREFIX_KEY_document.bin/.idx (Megatron's layout) and .json; bad lines go to PREFIX_rejected.jsonl.
examples:
  mindspeed preprocess --input corpus.jsonl.gz --train-tokenizer 4096 --output-prefix data/corpus
  mindspeed preprocess --input 'books/*.txt' --tokenizer-name-or-path DIR --output-prefix data/books"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry of ``mindspeed preprocess``; returns the exit code.

    Raises:
        DataError: bad input, an empty corpus, an output that cannot be written.
    """
    parser = _parser()
    parsed = parser.parse_args(argv)
    if (parsed.tokenizer_name_or_path is None) == (parsed.train_tokenizer is None):
        parser.error("give one of --tokenizer-name-or-path PATH and --train-tokenizer SIZE")
    paths = _expand(parsed.input)
    started = time.perf_counter()
    filters, dedup = cleaning.make_filters(
        parsed,
        lambda filters: _data.scan(
            _input(parsed, paths, _Progress("dedup", parsed.log_interval), filters)
        ),
    )
    if dedup:
        print(f"dedup: {cleaning.describe(dedup)}", flush=True)
    if parsed.train_tokenizer is not None:
        tokenizer = _train_tokenizer(parsed, paths, filters)
    else:
        tokenizer = _data.Tokenizer.from_file(parsed.tokenizer_name_or_path)
    encoding_started = time.perf_counter()
    report = _data.preprocess(
        _input(parsed, paths, _Progress("preprocess", parsed.log_interval), filters),
        parsed.output_prefix,
        tokenizer,
        append_eod=parsed.append_eod,
    )
    finished = time.perf_counter()
    report["dedup"] = dedup
    report["encode_s"] = finished - encoding_started
    report["total_s"] = finished - started
    _print_report(report, parsed)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mindspeed preprocess",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--input", nargs="+", required=True, metavar="PATH", help="files, folders or globs")
    add("--output-prefix", required=True, metavar="PREFIX")
    add("--json-keys", nargs="+", default=["text"], metavar="KEY", help="default: text")
    add("--tokenizer-type", default="PretrainedFromHF", choices=["PretrainedFromHF"])
    add(
        "--tokenizer-name-or-path",
        metavar="PATH",
        help="a vocabulary file (docs/data/tokenizers.md) or its folder",
    )
    add("--train-tokenizer", type=int, metavar="SIZE", help="train a BPE vocabulary of SIZE tokens")
    add(
        "--save-tokenizer",
        metavar="FILE",
        help="where the trained one goes; default: tokenizer.json beside the output",
    )
    add("--workers", type=int, default=os.cpu_count() or 1, help="threads; default: all cores")
    add(
        "--append-eod",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="end each document with the end-of-text token; default: yes",
    )
    add(
        "--on-bad-line",
        choices=["skip", "fail"],
        default="skip",
        help="default: skip, count and write to PREFIX_rejected.jsonl",
    )
    add(
        "--text-documents",
        choices=["file", "paragraph", "line"],
        default="file",
        help="what one document of a .txt file is; default: the file",
    )
    add("--max-record-bytes", type=int, default=128 << 20, metavar="N", help="default: 128 MiB")
    add("--log-interval", type=float, default=1.0, metavar="SECONDS", help="of progress lines")
    add("--json", metavar="FILE", help="also write the final report there")
    cleaning.add_arguments(parser)
    return parser


def _expand(inputs: Sequence[str]) -> list[str]:
    paths = []
    for one in inputs:
        # Path.glob takes no absolute pattern
        found = sorted(glob.glob(one, recursive=True)) if glob.has_magic(one) else [one]  # noqa: PTH207
        if not found and not Path(one).exists():
            raise DataError(f"{one}: the pattern must match at least one file")
        paths += found or [one]
    return paths


def _input(
    parsed: argparse.Namespace,
    paths: list[str],
    on_progress: Callable[[dict[str, int]], None],
    filters: list[Any],
) -> _data.InputOptions:
    return _data.InputOptions(
        paths,
        parsed.json_keys,
        parsed.workers,
        parsed.text_documents,
        parsed.max_record_bytes,
        parsed.on_bad_line == "fail",
        on_progress,
        filters,
    )


def _train_tokenizer(
    parsed: argparse.Namespace, paths: list[str], filters: list[Any]
) -> _data.Tokenizer:
    path = parsed.save_tokenizer or Path(parsed.output_prefix).parent / "tokenizer.json"
    started = time.perf_counter()
    tokenizer = _data.train_tokenizer(
        _input(parsed, paths, _Progress("train tokenizer", parsed.log_interval), filters),
        parsed.train_tokenizer,
        [END_OF_TEXT],
    )
    tokenizer.save(os.fspath(path))
    seconds = time.perf_counter() - started
    size = tokenizer.vocab_size
    print(f"tokenizer: {size} tokens trained in {seconds:.2f} s -> {path}", flush=True)
    if size < parsed.train_tokenizer:
        print(
            f"tokenizer: warning: the text gives only {size} of {parsed.train_tokenizer} tokens",
            file=sys.stderr,
        )
    return tokenizer


class _Progress:
    """Prints a line on stderr now and then; overwrites it in a terminal."""

    def __init__(self, doing: str, interval_s: float) -> None:
        self.doing, self.interval_s = doing, interval_s
        self.started = self.printed = time.perf_counter()
        self.open_line = False

    def __call__(self, progress: dict[str, int]) -> None:
        now = time.perf_counter()
        done = progress["bytes_read"] >= progress["input_bytes"]
        if now - self.printed < self.interval_s or (done and self.printed == self.started):
            return
        self.printed = now
        seconds = now - self.started
        share = progress["bytes_read"] / max(1, progress["input_bytes"])
        left = seconds / share - seconds if share > 0 else float("inf")
        line = (
            f"{self.doing}: {share:4.0%}  {progress['documents']:,} documents  "
            f"{progress['tokens']:,} tokens  {progress['text_bytes'] / 1e6 / seconds:.1f} MB/s  "
            f"{left:.0f} s left"
        )
        if sys.stderr.isatty():
            end = "\n" if done else ""
            print(f"\r{line:<100}", end=end, file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)


def _print_report(report: dict[str, Any], parsed: argparse.Namespace) -> None:
    report["mb_per_s"] = report["text_bytes"] / 1e6 / report["encode_s"]
    report["files"] = [f"{parsed.output_prefix}_{key}_document" for key in parsed.json_keys]
    print(
        f"preprocess: {report['documents']:,} documents, {report['tokens']:,} tokens, "
        f"{report['text_bytes'] / 1e6:.2f} MB of text in {report['encode_s']:.2f} s "
        f"({report['mb_per_s']:.1f} MB/s, "
        f"{report['text_bytes'] / max(1, report['tokens']):.2f} bytes per token)"
    )
    if report["empty"]:
        print(f"preprocess: {report['empty']:,} empty documents skipped")
    for reason, count in report["dropped_reasons"].items():
        print(f"preprocess: {count:,} documents dropped: {reason}")
    if report["replaced_surrogates"]:
        print(f"preprocess: {report['replaced_surrogates']:,} lone surrogates replaced by U+FFFD")
    if report["rejected"]:
        print(
            f"preprocess: {report['rejected']:,} bad lines rejected, see {parsed.output_prefix}_rejected.jsonl"
        )
    for prefix in report["files"]:
        print(f"preprocess: wrote {prefix}.bin, .idx, .json", flush=True)
    if parsed.json:
        Path(parsed.json).write_text(json.dumps(report, indent=1) + "\n")
