"""The entry point, which watches for signals before anything else is loaded.

Until `Watch.start` has run, Ctrl-C is Python's own traceback. So `fieldcal`, `fieldcal.cli` and this module load next
to nothing, and everything else is loaded under watch.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

TYPE_CHECKING = False  # typing would be the largest import here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType, TracebackType
    from typing import Any


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code.

    Parameters
    ----------
    args : the arguments, by default those of the process, which then ends here and now

    Examples
    --------
    >>> from fieldcal.cli import main
    >>> main(["schema", "verdict"])
    Traceback (most recent call last):
    SystemExit: 1
    """
    watch = Watch(whole_process=args is None)
    try:
        watch.start()
        from fieldcal.cli.dispatch import run

        code = run(args, watch)
        watch.working = False
    except BaseException as error:
        if watch.caught is None and not isinstance(error, KeyboardInterrupt):
            raise
        code = watch.exit_code
    watch.stop(code)


class Watch:
    """While it is on, a signal raises KeyboardInterrupt, once, so that whatever is half-written is taken away.

    The second is ignored while that goes on, and the third ends the process. KeyboardInterrupt is raised once only, and
    only while ``working``: so ``try … except`` around the work catches it, however late it comes.

    Parameters
    ----------
    whole_process : whether the process has nothing else to do; then it ends at once after the work, as a signal that
        comes while Python takes itself apart is a traceback, or another exit code
    """

    def __init__(self, *, whole_process: bool) -> None:
        self.caught: int | None = None
        self.working = True
        self._whole_process = whole_process
        self._times = 0
        self._before: dict[int, Any] = {}

    def start(self) -> None:
        """Watch from now on."""
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            # Ignored ones stay so: nohup, or a shell's background job.
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                try:
                    self._before[number] = signal.signal(number, self._receive)
                except ValueError:  # not in the main thread: Python allows it nowhere else
                    return
        if self._whole_process:
            sys.excepthook, sys.unraisablehook = self._uncaught, self._unraisable

    def stop(self, code: int) -> None:
        """Exit with this code."""
        if self._whole_process or self.caught is not None:  # a query that was told to stop may never end
            self._end(code)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        sys.exit(code)

    @property
    def exit_code(self) -> int:
        """What a shell would report: 130 for Ctrl-C."""
        return 128 + (self.caught or signal.SIGINT)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._times += 1
        first, self.caught = self.caught is None, self.caught or number
        if self._times > 2:
            os._exit(self.exit_code)
        if first and self.working:
            raise KeyboardInterrupt

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Called by extensions that print the error of an import and go on with another one."""
        if isinstance(error, KeyboardInterrupt):
            self._end(self.exit_code)
        sys.__excepthook__(kind, error, trace)

    def _unraisable(self, seen: sys.UnraisableHookArgs) -> None:
        """Where nothing can be raised, as while something is collected, the signal would be lost."""
        if isinstance(seen.exc_value, KeyboardInterrupt):
            self._end(self.exit_code)
        sys.__unraisablehook__(seen)

    def _end(self, code: int) -> None:
        """End the process without taking it apart; what was registered for its end is done."""
        from contextlib import suppress

        self.working = False
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # nobody reads it, it is closed, or a write to it was interrupted
                stream.flush()
        atexit._run_exitfuncs()
        os._exit(code if self.caught is None else self.exit_code)
