"""The entry point: it loads next to nothing, so that Ctrl-C while the rest is loaded is caught as well."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # typing would be the largest import here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

INTERRUPTED = 130
#: The signals that came: libraries may turn the KeyboardInterrupt into an error of their own, or swallow it.
signals: list[int] = []


def _interrupt(number: int, frame: FrameType | None) -> None:
    signals.append(number)
    raise KeyboardInterrupt


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code.

    Parameters
    ----------
    args : the arguments, by default those of the process, of which SIGTERM then does the same as Ctrl-C

    Examples
    --------
    >>> from fieldcal.cli import main
    >>> main(["show", "nothing.json"])
    Traceback (most recent call last):
    SystemExit: 1
    """
    try:
        for number in (signal.SIGINT, signal.SIGTERM) if args is None else ():
            if signal.getsignal(number) is not signal.SIG_IGN:  # as in a job in the background
                signal.signal(number, _interrupt)
        from fieldcal.cli.dispatch import run

        code = run(args)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        code = INTERRUPTED
    if args is None:  # the work is done, and Python ends: a signal now would only print a traceback
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        if code == INTERRUPTED:  # where an eval() met it, Python would end by the signal itself
            os._exit(code)
    sys.exit(code)
