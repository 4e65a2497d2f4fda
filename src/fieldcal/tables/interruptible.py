"""A long query that Ctrl-C ends, also where DuckDB misses that it was told to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_STEP, _PATIENCE = 0.1, 5.0
#: Connections whose query would not stop: kept, as to close one would wait for it.
_hanging: list[Any] = []


def interruptible(connection: Any, work: Callable[[], Any]) -> Any:
    """What the work returns or raises. It runs beside, so that a signal is heard while DuckDB is busy.

    DuckDB 2.0 now and then never returns from an interrupted COPY; after some seconds it is left behind.
    """
    found: dict[str, Any] = {}

    def run() -> None:
        try:
            found["answer"] = work()
        except BaseException as error:
            found["error"] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_STEP)
    except BaseException:
        connection.interrupt()
        thread.join(_PATIENCE)
        if thread.is_alive():
            _hanging.append(connection)
        raise
    if "error" in found:
        raise found["error"]
    return found["answer"]


def hangs(connection: Any) -> bool:
    """Whether a query of this connection was left behind."""
    return any(connection is other for other in _hanging)
