"""The HTML report of a run: curves and where the step's time went, in one file without links."""

import base64
import io
from pathlib import Path
from statistics import median
from typing import Any

import jinja2
import matplotlib

from mindspeed_llm.metrics import SECONDS, read_metrics
from mindspeed_llm.progress import duration, gigabytes

matplotlib.use("Agg")
from matplotlib import pyplot

SECONDS_NAMES = {
    "data_s": "waiting for data",
    "forward_s": "forward",
    "backward_s": "backward",
    "reduce_wait_s": "waiting for gradients of other ranks",
    "clip_s": "gradient norm and clipping",
    "optimizer_s": "optimizer",
    "save_s": "checkpoint",
    "other_s": "everything else",
}

MEMORY_NAMES = {
    "peak_memory_bytes": "process, peak so far",
    "pool_reserved_bytes": "pool, held",
    "pool_peak_bytes": "pool, most in use in the step",
}


def write_report(metrics: Path, plan: list[str], target: Path) -> None:
    """Write the report of a metrics.jsonl to ``target``; nothing when it holds no step."""
    lines = read_metrics(metrics)
    if not lines:
        return
    curves = [
        _curves("loss", lines, "mean loss a token (nats)", {"loss": ""}),
        _curves("throughput", lines, "tokens/s", {"tokens_per_s": ""}),
        _curves("memory", lines, "GiB", MEMORY_NAMES, 2**-30),
        _curves("gradient norm", lines, "global norm", {"grad_norm": ""}),
        _curves("learning rate", lines, "learning rate", {"lr": ""}),
    ]
    page = _template().render(
        title=f"{metrics.parent.name}: {len(lines)} steps",
        summary=_summary(lines),
        plan="\n".join(plan),
        curves=curves,
        shares=step_shares(lines),
    )
    target.write_text(page, encoding="utf-8")


def step_shares(lines: list[dict[str, Any]]) -> list[tuple[str, float, float]]:
    """(part of the step, mean seconds, share of the step), largest first."""
    total = sum(line["step_s"] for line in lines)
    parts = {key: sum(line.get(key) or 0.0 for line in lines) for key in SECONDS}
    parts["other_s"] = max(0.0, total - sum(parts.values()))
    shares = [
        (SECONDS_NAMES[key], seconds / len(lines), seconds / total)
        for key, seconds in parts.items()
        if total > 0
    ]
    return sorted(shares, key=lambda share: -share[1])


def _summary(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    last = lines[-1]
    losses = [line["loss"] for line in lines if line["loss"] is not None]
    mfu = [line["mfu"] for line in lines if line["mfu"] is not None]
    return [
        ("steps", str(last["step"])),
        ("loss, first and last", f"{losses[0]:.4f} → {losses[-1]:.4f}" if losses else "-"),
        ("tokens", f"{sum(line['tokens'] for line in lines):,}"),
        ("time in steps", duration(sum(line["step_s"] for line in lines))),
        ("tokens/s, median", f"{median(line['tokens_per_s'] for line in lines):,.0f}"),
        ("MFU, median", f"{median(mfu):.1%}" if mfu else "the peak rate is not known"),
        ("peak memory", gigabytes(max(line["peak_memory_bytes"] for line in lines))),
    ]


def _curves(
    title: str,
    lines: list[dict[str, Any]],
    label: str,
    names: dict[str, str],
    scale: float = 1,
) -> tuple[str, str]:
    """(title, PNG as a data URL): the keys of ``names`` over steps, with a legend if there are several."""
    figure, axes = pyplot.subplots(figsize=(6.4, 3.2), dpi=100)
    steps = [line["step"] for line in lines]
    for key, name in names.items():
        values = [line.get(key) for line in lines]
        known = [float("nan") if value is None else value * scale for value in values]
        axes.plot(steps, known, linewidth=1.2, label=name)
    if len(names) > 1:
        axes.legend()
    axes.set_xlabel("step")
    axes.set_ylabel(label)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    image = io.BytesIO()
    figure.savefig(image, format="png")
    pyplot.close(figure)
    return title, "data:image/png;base64," + base64.b64encode(image.getvalue()).decode()


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True
    )
    return environment.get_template("report.html.j2")
