"""The entry point: it loads next to nothing, so that Ctrl-C while the rest is loaded is caught as well."""

from __future__ import annotations

import signal
import sys

TYPE_CHECKING = False  # typing would be the largest import here
if TYPE_CHECKING:
    from collections.abc import Sequence


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
        if args is None:
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        from fieldcal.cli.dispatch import run

        code = run(args)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        code = 130
    if args is None:  # the work is done, and Python ends: a signal now would only print a traceback
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)
