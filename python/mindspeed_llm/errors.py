"""Errors of the user's making and how they are shown: one line, never a traceback.

A script that does not catch a :class:`UserError` ends with that line and exit code 1.
"""

import sys
from types import TracebackType


class UserError(Exception):
    """Something outside the program is wrong: a file, a disk, an argument. One clear line."""


class ConfigError(UserError, ValueError):
    """A configuration that cannot be run; the message begins with file and line."""


class TrainingError(UserError, RuntimeError):
    """Training cannot go on (a non-finite loss, a failed rank, a checkpoint not written)."""


def print_error(error: BaseException) -> None:
    """Write ``mindspeed: error: MESSAGE`` as one line on stderr."""
    text = " ".join(str(error).split())
    print(f"mindspeed: error: {text}", file=sys.stderr, flush=True)


def _show_uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if isinstance(error, UserError):
        print_error(error)
    else:
        sys.__excepthook__(kind, error, traceback)


if sys.excepthook is sys.__excepthook__:  # leave another program's own hook alone
    sys.excepthook = _show_uncaught
