"""What each step leaves: a line of metrics.jsonl, and points in TensorBoard's event files."""

import json
from pathlib import Path
from typing import Any

from mindspeed_llm.errors import TrainingError

SECONDS = ("data_s", "forward_s", "backward_s", "reduce_wait_s", "clip_s", "optimizer_s", "save_s")
PLOTTED = ("loss", "grad_norm", "lr", "tokens_per_s", "mfu", "peak_memory_bytes", "step_s")


class MetricsLog:
    """Appends to ``OUTPUT_DIR/metrics.jsonl`` and ``OUTPUT_DIR/tensorboard``.

    Lines after ``resumed_step`` are dropped first, so each step stands there once.
    """

    def __init__(self, output_dir: Path, resumed_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.path = output_dir / "metrics.jsonl"
        self.tensorboard = output_dir / "tensorboard"
        _drop_after(self.path, resumed_step)
        self._file = self.path.open("a", encoding="utf-8", buffering=1)
        self._events = SummaryWriter(str(self.tensorboard), purge_step=resumed_step + 1)

    def write(self, line: dict[str, Any]) -> None:
        """Append a step's values."""
        try:
            self._file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise TrainingError(f"{self.path}: cannot be written: {error.strerror}") from None
        for key in (*PLOTTED, *SECONDS):
            if line.get(key) is not None:
                group = "seconds" if key in SECONDS else "training"
                self._events.add_scalar(f"{group}/{key}", line[key], line["step"])

    def close(self) -> None:
        """Flush and close both."""
        self._file.close()
        self._events.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a metrics file; a last line cut short by a crash is left out."""
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return lines


def _drop_after(path: Path, step: int) -> None:
    if not path.exists():
        return
    kept = [json.dumps(line) + "\n" for line in read_metrics(path) if line["step"] <= step]
    new = path.with_suffix(".tmp")
    new.write_text("".join(kept), encoding="utf-8")
    new.replace(path)
