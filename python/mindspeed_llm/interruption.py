"""Ctrl-C and SIGTERM: the first asks for a clean end after the step, the second ends at once."""

import os
import signal
import sys
import time
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
REPEAT_S = (
    1.0  # torchrun passes a terminal's Ctrl-C on once more: within this time it is the same one
)


class Interruption:
    """Context in which both signals set ``signal_number`` instead of ending the process.

    The process then ends with 128 + the signal's number: 130 for Ctrl-C, 143 for SIGTERM.
    """

    def __init__(self) -> None:
        self.signal_number = 0
        self._first = 0.0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interruption":
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self.signal_number == 0:
            self.signal_number, self._first = number, now
            name = signal.Signals(number).name
            if os.environ.get("RANK", "0") == "0":
                os.write(
                    sys.stderr.fileno(),
                    f"\nmindspeed: {name}: finishing this step and saving; once more ends at"
                    " once\n".encode(),
                )
        elif "TORCHELASTIC_RUN_ID" not in os.environ or now - self._first > REPEAT_S:
            os._exit(128 + number)
