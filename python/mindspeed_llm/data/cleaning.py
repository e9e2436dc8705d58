"""Cleaning and deduplication as flags of a command, and the filters that the flags ask for."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mindspeed_llm.data import DataError, _data

# flag: (type, default, help); the filter's options have the same names
LIMITS: dict[str, tuple[type, float, str]] = {
    "--min-characters": (int, 0, "drop documents with fewer characters"),
    "--max-characters": (int, 2**64 - 1, "drop documents with more characters"),
    "--min-mean-word-length": (float, 0.0, "in characters; 3 drops most of what is not prose"),
    "--max-mean-word-length": (float, float("inf"), "10 drops most of what is not prose"),
    "--min-letter-share": (float, 0.0, "of the characters that are no white space, from 0 to 1"),
    "--max-repeated-line-share": (float, 1.0, "of the text's lines, from 0 to 1"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--nfc``, the limits and ``--dedup`` to a command."""
    group = parser.add_argument_group("cleaning and deduplication (docs/data/cleaning.md)")
    group.add_argument("--nfc", action="store_true", help="rewrite text in Unicode normal form C")
    for flag, (kind, default, text) in LIMITS.items():
        group.add_argument(flag, type=kind, default=default, metavar="N", help=text)
    group.add_argument(
        "--dedup",
        nargs="+",
        choices=["exact", "near", "substring"],
        default=[],
        help="drop documents equal to an earlier one; near: and those like it (MinHash); "
        "substring: and cut passages that stood before",
    )
    group.add_argument(
        "--near-threshold",
        type=float,
        default=0.8,
        metavar="J",
        help="Jaccard similarity of runs of five words from which documents are near; default: 0.8",
    )
    group.add_argument(
        "--substring-bytes",
        type=int,
        default=200,
        metavar="N",
        help="length from which passages are cut; default: 200",
    )
    group.add_argument(
        "--dedup-memory-mb", type=int, default=256, metavar="N", help="then disk; default: 256"
    )
    group.add_argument(
        "--scratch-folder", metavar="DIR", help="for dedup; default: the output's folder"
    )


def cleaning_filter(parsed: argparse.Namespace) -> _data.CleaningFilter | None:
    """The filter that the flags ask for; None if they ask for none.

    Raises:
        DataError: a limit that makes no sense.
    """
    options = _data.CleaningOptions()
    options.nfc = parsed.nfc
    asked = parsed.nfc
    for flag, (_, default, _) in LIMITS.items():
        name = flag[2:].replace("-", "_")
        value = getattr(parsed, name)
        asked |= value != default
        if isinstance(value, int) and not 0 <= value < 2**64:
            raise DataError(f"{flag} must be from 0 to 2^64 - 1, got {value}")
        setattr(options, name, value)
    return _data.CleaningFilter(options) if asked else None


def make_filters(
    parsed: argparse.Namespace, scan: Callable[[list[Any]], object]
) -> tuple[list[Any], dict[str, Any]]:
    """The filters of the pass that encodes, and what deduplication counted.

    ``scan(filters)`` must show every document to the filters; it is called once for ``--dedup``, and once
    more for ``--dedup substring``.

    Raises:
        DataError: a limit that makes no sense, or ``--dedup`` for several keys.
    """
    cleaning = cleaning_filter(parsed)
    filters: list[Any] = [cleaning] if cleaning else []
    if not parsed.dedup:
        return filters, {}
    if len(parsed.json_keys) > 1:
        raise DataError(
            f"--dedup must have one key, got --json-keys {' '.join(parsed.json_keys)}; "
            "preprocess the keys one by one"
        )
    if parsed.dedup_memory_mb < 1:
        raise DataError(f"--dedup-memory-mb must be at least 1, got {parsed.dedup_memory_mb}")
    scratch = parsed.scratch_folder or Path(parsed.output_prefix).parent
    memory_bytes = parsed.dedup_memory_mb << 20
    dedup = _data.DedupFilter(
        scratch,
        near="near" in parsed.dedup,
        near_threshold=parsed.near_threshold,
        memory_bytes=memory_bytes,
        threads=parsed.workers,
    )
    filters.append(dedup)
    scan(filters)
    counts: dict[str, Any] = dedup.decide()
    if "substring" in parsed.dedup:
        if not 8 <= parsed.substring_bytes < 2**32:
            raise DataError(
                f"--substring-bytes must be from 8 to 2^32 - 1, got {parsed.substring_bytes}"
            )
        substrings = _data.SubstringFilter(
            scratch, parsed.substring_bytes, memory_bytes, parsed.workers
        )
        filters.append(substrings)
        scan(filters)
        counts["substring"] = substrings.decide()
    return filters, counts


def describe(counts: dict[str, Any]) -> str:
    """What deduplication removed, as one line."""
    line = (
        f"{counts['documents']:,} documents, {counts['exact_documents']:,} exact copies "
        f"({counts['exact_bytes'] / 1e6:.2f} MB) and {counts['near_documents']:,} near ones "
        f"({counts['near_bytes'] / 1e6:.2f} MB) dropped"
    )
    if counts["clusters"]:
        line += f"; most copies of one document: {counts['largest_cluster']:,}"
    if "substring" in counts:
        substring = counts["substring"]
        line += (
            f"; {substring['removed_bytes'] / 1e6:.2f} MB of repeated passages cut from "
            f"{substring['changed_documents']:,} documents"
        )
    return line
