"""Writes docs/benchmarks.md and its picture from the CSV files under benchmarks/results: `make benchmark-page`.

A file's name ends in -train.csv or -ops.csv, which says what wrote it: `mindspeed bench train|ops --csv FILE`.
"""

import csv
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
DOCS = ROOT / "docs"
PICTURE = "benchmarks_train.svg"
INTRODUCTION = """# Benchmarks

Built from [benchmarks/results](../benchmarks/results) by `make benchmark-page`; do not edit by hand.

Contestants take turns, ours and a peer, with the same threads and shapes. A ratio is the median over rounds of peer's
time / our time in the same round (above 1: ours is faster), with its spread.
"""

Row = dict[str, str]


def read(kind: str) -> list[Row]:
    """Rows of every file of one kind, in the order of the files' names."""
    rows: list[Row] = []
    for path in sorted(RESULTS.glob(f"*-{kind}.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows += [{"file": path.name, **row} for row in csv.DictReader(file)]
    return rows


def conditions(row: Row) -> str:
    """What a file's rows were measured on."""
    return (
        f"{row['cpu']} ({row['isa']}), {row['threads']} threads, torch {row['torch']}, commit {row['commit']}, "
        f"{row['date'][:10]} ([file](../benchmarks/results/{row['file']})):"
    )


def table(head: list[str], lines: list[list[str]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


def mebibytes(text: str) -> str:
    """Bytes as MiB."""
    return f"{float(text) / 2**20:.0f}"


def train_line(row: Row) -> list[str]:
    """A peer at one size."""
    return [
        row["shape"],
        f"{row['batch']} x {row['sequence']}",
        row["peer"],
        f"{float(row['ours_tokens_per_s']):.0f} / {float(row['peer_tokens_per_s']):.0f}",
        f"{float(row['ratio_median']):.2f} ({float(row['ratio_min']):.2f} to {float(row['ratio_max']):.2f})",
        f"{mebibytes(row['ours_peak_bytes'])} / {mebibytes(row['peer_peak_bytes'])}",
        f"{float(row['ours_share_of_limit']):.0%}" if row.get("ours_share_of_limit") else "",
    ]


TRAIN_HEAD = [
    "model",
    "tokens",
    "peer",
    "tokens/s, ours / peer",
    "ratio (min to max)",
    "peak MiB, ours / peer",
    "share of GEMM limit",
]


def ops_line(row: Row) -> list[str]:
    """An operator on one shape, against every peer."""
    ratios = []
    for column in [name for name in row if name.endswith("_ratio") and row[name]]:
        peer = column.removesuffix("_ratio")
        low, high = (float(row[f"{peer}_quartiles_{end}"]) for end in ("low", "high"))
        ratios.append(f"{peer} {float(row[column]):.2f} ({low:.2f} to {high:.2f})")
    name = [row["operator"], row["shape"], row["dtype"], f"{float(row['ours_ms']):.3f}"]
    return [*name, "<br>".join(ratios)]


OPS_HEAD = ["operator", "shape", "dtype", "ours, ms", "ratios (quartiles)"]


def section(title: str, rows: list[Row], head: list[str], line) -> list[str]:
    """A heading, and a table for each file."""
    parts = [f"## {title}"]
    for file in dict.fromkeys(row["file"] for row in rows):
        of_file = [row for row in rows if row["file"] == file]
        parts += [conditions(of_file[0]), table(head, [line(row) for row in of_file])]
    return parts


def page() -> str:
    """The text of docs/benchmarks.md."""
    parts = [INTRODUCTION.strip()]
    if train := read("train"):
        parts += section("Training steps", train, TRAIN_HEAD, train_line)
        parts.append(f"![Ratio of each peer's step time to ours]({PICTURE})")
    if ops := read("ops"):
        parts += section("Operators", ops, OPS_HEAD, ops_line)
    return "\n\n".join(parts) + "\n"


def draw(rows: list[Row], path: Path) -> None:
    """A bar a peer and size; whiskers are the least and greatest ratio of a round."""
    labels = [f"{row['shape']} {row['batch']}x{row['sequence']}\n{row['peer']}" for row in rows]
    middle = [float(row["ratio_median"]) for row in rows]
    below = [m - float(row["ratio_min"]) for m, row in zip(middle, rows, strict=True)]
    above = [float(row["ratio_max"]) - m for m, row in zip(middle, rows, strict=True)]
    plt.rcParams["svg.hashsalt"] = "mindspeed"  # equal input, equal file
    figure, axes = plt.subplots(figsize=(8, 1 + 0.55 * len(rows)), layout="constrained")
    axes.barh(labels, middle, xerr=[below, above], color="#4c78a8", capsize=3)
    axes.axvline(1, color="black", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel("peer's step time / ours (above 1: ours is faster)")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    (DOCS / "benchmarks.md").write_text(page(), encoding="utf-8")
    if train_rows := read("train"):
        draw(train_rows, DOCS / PICTURE)
