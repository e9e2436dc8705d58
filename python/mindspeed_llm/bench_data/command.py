"""``mindspeed bench data``: the data pipeline beside its peers, as a table and as JSON.

CORPORA is the folder that ``bench_tokenizers.py prepare`` fills: corpus/{en,zh,code}.jsonl and vocab/.
"""

import argparse
import json
import platform
import subprocess
from datetime import datetime, timezone
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# subject: module with measure(folder, rounds) -> rows
SUBJECTS = {
    "dedup": "mindspeed_llm.bench_data.dedup",
    "encoding": "mindspeed_llm.bench_data.encoding",
    "vocabulary": "mindspeed_llm.bench_data.vocabulary",
}
PEERS = (
    "gigatoken fastokens tokenizers tiktoken sentencepiece datasketch rensa megatron-core".split()
)


def main(argv: list[str]) -> int:
    """Entry of ``mindspeed bench data``."""
    parser = argparse.ArgumentParser(
        prog="mindspeed bench data",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="results go here")
    parser.add_argument("--corpora", type=Path, required=True, help="folder of texts, vocabularies")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds")
    parser.add_argument("--subject", action="append", choices=SUBJECTS, help="default: all")
    parsed = parser.parse_args(argv)
    missing = [name for name in ("corpus", "vocab") if not (parsed.corpora / name).is_dir()]
    if missing:
        parser.error(
            f"--corpora must be a folder with corpus/ and vocab/, got {parsed.corpora} without "
            f"{' and '.join(missing)}; see docs/data/tokenizers.md"
        )
    rows: list[dict[str, Any]] = []
    for subject in parsed.subject or SUBJECTS:
        found = import_module(SUBJECTS[subject]).measure(parsed.corpora, parsed.rounds)
        print(_table(found), flush=True)
        rows += found
    _write(parsed.json, rows)
    return 0


def _table(rows: list[dict[str, Any]]) -> str:
    """The rows' short values in columns, no wider than 80 characters: the rest is in the JSON."""
    lines: list[str] = []
    keys: list[str] = []
    for row in rows:
        shown = [key for key, value in row.items() if not isinstance(value, list | dict)]
        shown = [key for key in shown if key not in ("subject", "ids", "megabytes")]
        if shown != keys:
            keys = shown
            lines.append("".join(f"{key[:13]:<14}" for key in keys)[:80].rstrip())
        cells = ("" if row[key] is None else str(row[key])[:13] for key in keys)
        lines.append("".join(f"{cell:<14}" for cell in cells)[:80].rstrip())
    return "\n".join(lines)


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    result = {
        "command": "mindspeed bench data",
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": _commit(),
        "cpu": _cpu_name(),
        "python": platform.python_version(),
        "versions": {name: found for name in PEERS if (found := _version(name))},
        "rows": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written: {path}")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str:
    here = Path(__file__).resolve().parent
    command = ["git", "-C", str(here), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()
