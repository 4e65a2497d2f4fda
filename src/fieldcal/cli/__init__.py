"""The command line: parse, call, print, exit code. No statistics.

Exit codes: 0 done (and `check`: ok), 1 an error, 2 `check`: use with care, 3 `check`: do not use, 130 interrupted,
141 the reader of the output went away.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code.

    Parameters
    ----------
    args : the arguments, by default those of the process

    Examples
    --------
    >>> from fieldcal.cli import main
    >>> main(["schema", "verdict"])
    Traceback (most recent call last):
    SystemExit: 1
    """
    from fieldcal.cli.main import Watch
    from fieldcal.cli.output import not_installed

    with Watch() as watch:
        try:
            from fieldcal.cli.main import run
        except ModuleNotFoundError as error:
            sys.stderr.write(f"error: {not_installed(error)}\n")
            sys.exit(1)
        except KeyboardInterrupt:
            sys.exit(watch.exit_code)
        code = run(args, watch)
    if watch.caught is not None:  # at once: a query that was told to stop may never end
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
