"""Ctrl-C, and a polite request to end: remembered, so that the exit code is right whoever swallows the exception."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Watch:
    """While it is on, these signals raise KeyboardInterrupt, so that whatever is half-written is taken away."""

    def __init__(self) -> None:
        self.caught: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python allows it nowhere else
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a shell's background job
                    self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.caught = number
        raise KeyboardInterrupt

    @property
    def exit_code(self) -> int:
        """What a shell would report: 130 for Ctrl-C."""
        return 128 + (self.caught or signal.SIGINT)
