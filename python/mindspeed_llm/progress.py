"""How a run looks while it goes on: one live line in a terminal, plain lines elsewhere."""

import sys
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text


class Progress:
    """Shows the newest step. Used as a context on the first rank only."""

    def __init__(self, max_steps: int, interval: int, quiet: bool = False) -> None:
        self.max_steps, self.interval, self.quiet = max_steps, interval, quiet
        self._console = Console(file=sys.stdout, highlight=False)
        self._live: Live | None = None

    def __enter__(self) -> "Progress":
        if self._console.is_terminal and not self.quiet:
            self._live = Live(console=self._console, auto_refresh=False, transient=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, line: dict[str, Any], eta_s: float) -> None:
        """Show a step's metrics."""
        if self.quiet:
            return
        text = step_text(line, self.max_steps, eta_s)
        if self._live is not None:
            self._live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
        elif line["step"] % self.interval == 0 or line["step"] == self.max_steps:
            print(text, flush=True)

    def say(self, text: str) -> None:
        """A line that stays, above the live one."""
        if not self.quiet:
            self._console.print(Text(text), soft_wrap=True)


def step_text(line: dict[str, Any], max_steps: int, eta_s: float) -> str:
    """One step as a line of at most about 100 characters."""
    mfu = "-" if line["mfu"] is None else f"{line['mfu']:.0%}"
    return (
        f"step {line['step']}/{max_steps}  loss {line['loss']:.4f}  lr {line['lr']:.2e}"
        f"  {line['tokens_per_s']:,.0f} tok/s  MFU {mfu}"
        f"  mem {gigabytes(line['peak_memory_bytes'])}  ETA {duration(eta_s)}"
    )


def gigabytes(number: float) -> str:
    """Bytes as GiB with two digits."""
    return f"{number / 2**30:.2f} GiB"


def duration(seconds: float) -> str:
    """h:mm:ss."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
