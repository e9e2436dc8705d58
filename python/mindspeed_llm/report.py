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


def write_report(metrics: Path, plan: list[str], target: Path) -> None:
    """Write the report of a metrics.jsonl to ``target``; nothing when it holds no step."""
    lines = read_metrics(metrics)
    if not lines:
        return
    steps = [line["step"] for line in lines]
    curves = [
        _curve("loss", steps, lines, "loss", "mean loss a token (nats)"),
        _curve("throughput", steps, lines, "tokens_per_s", "tokens/s"),
        _curve("memory", steps, lines, "peak_memory_bytes", "peak GiB", 2**-30),
        _curve("gradient norm", steps, lines, "grad_norm", "global norm"),
        _curve("learning rate", steps, lines, "lr", "learning rate"),
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


def _curve(
    title: str,
    steps: list[int],
    lines: list[dict[str, Any]],
    key: str,
    label: str,
    scale: float = 1,
) -> tuple[str, str]:
    """(title, PNG as a data URL)."""
    values = [float("nan") if line[key] is None else line[key] * scale for line in lines]
    figure, axes = pyplot.subplots(figsize=(6.4, 3.2), dpi=100)
    axes.plot(steps, values, linewidth=1.2)
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
