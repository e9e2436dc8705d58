"""docs/benchmarks.md says what the files under benchmarks/results say, and CSV files keep what was measured."""

import csv
import runpy
from pathlib import Path

from mindspeed_core.bench_ops import one_value_a_column
from mindspeed_core.bench_results import conditions, write_csv

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_up_to_date_with_the_results():
    page = runpy.run_path(str(ROOT / "benchmarks" / "build_page.py"))["page"]()
    assert (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8") == page, (
        "docs/benchmarks.md must be built from benchmarks/results; run `make benchmark-page`"
    )


def test_every_line_says_what_it_was_measured_on(tmp_path: Path):
    path = tmp_path / "results" / "today-ops.csv"
    rows = [
        {"operator": "swiglu", "eager_ratio": 2.0, "eager_quartiles": [1.5, 2.5]},
        {"ours_ms": 3},
    ]
    write_csv(path, conditions(threads=2), [one_value_a_column(row) for row in rows])
    first, second = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    assert first["commit"] and first["cpu"] and first["torch"] and first["threads"] == "2"
    assert (first["eager_quartiles_low"], first["eager_quartiles_high"]) == ("1.5", "2.5")
    assert (first["ours_ms"], second["ours_ms"], second["operator"]) == ("", "3", "")
