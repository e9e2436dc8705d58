"""Errors of the user's making and how they are shown: one line, never a traceback.

A script that does not catch a :class:`UserError` ends with that line and exit code 1.
"""

import os
import sys
from types import TracebackType


class UserError(Exception):
    """Something outside the program is wrong: a file, a disk, an argument. One clear line.

    ``on_every_rank`` says that all ranks raise the same, so that one of a machine speaks for all.
    """

    on_every_rank = False


class ConfigError(UserError, ValueError):
    """A configuration that cannot be run; the message begins with file and line."""

    on_every_rank = True


class TrainingError(UserError, RuntimeError):
    """Training cannot go on (a failed rank, a checkpoint not written)."""


class NonFiniteError(TrainingError):
    """Loss or gradients became infinite or NaN; names the first layer and operator."""

    on_every_rank = True


def print_error(error: BaseException) -> None:
    """Write ``mindspeed: error: MESSAGE`` as one line on stderr."""
    if getattr(error, "on_every_rank", False) and os.environ.get("LOCAL_RANK", "0") != "0":
        return
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
