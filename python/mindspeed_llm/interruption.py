"""Ctrl-C and SIGTERM: the first asks for a clean end after the step, the second ends at once.

A thread hears the signals through a pipe, because Python's own handlers wait for the main thread, which may
be inside the engine for a whole step.
"""

import os
import signal
import sys
import threading
import time
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
REPEAT_S = (
    1.0  # torchrun passes a terminal's Ctrl-C on once more: within this time it is the same one
)


class Interruption:
    """Context in which both signals set ``signal_number`` instead of ending the process.

    The process then ends with 128 + the signal's number: 130 for Ctrl-C, 143 for SIGTERM. Python allows
    this in the main thread only; elsewhere the signals keep their meaning.
    """

    def __init__(self) -> None:
        self.signal_number = 0
        self._before: dict[signal.Signals, Any] = {}
        self._pipe = (-1, -1)
        self._wakeup_before = -1
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is not threading.main_thread():
            return self
        self._pipe = os.pipe()
        os.set_blocking(self._pipe[1], False)
        self._wakeup_before = signal.set_wakeup_fd(self._pipe[1])
        for number in SIGNALS:
            self._before[number] = signal.signal(number, lambda *_: None)
        self._thread = threading.Thread(target=self._listen, name="signals", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is None:
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._pipe[1])  # the thread reads the end of the pipe
        self._thread.join()
        os.close(self._pipe[0])

    def _listen(self) -> None:
        first = 0.0
        while number := os.read(self._pipe[0], 1):
            if number[0] not in SIGNALS:
                continue
            if self.signal_number == 0:
                first = time.monotonic()
                self.signal_number = number[0]
                _say(signal.Signals(number[0]).name)
            elif "TORCHELASTIC_RUN_ID" not in os.environ or time.monotonic() - first > REPEAT_S:
                os._exit(128 + number[0])


def _say(name: str) -> None:
    if os.environ.get("RANK", "0") == "0":
        text = f"mindspeed: {name}: finishing this step and saving; once more ends at once"
        print(f"\n{text}", file=sys.stderr, flush=True)
