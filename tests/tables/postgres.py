"""A PostgreSQL server for the tests: made in a temporary folder, on loopback, gone afterwards."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

#: Nothing in it needs to survive, and several may run side by side.
_SETTINGS = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "autovacuum": "off"}
_SETTINGS |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_SETTINGS |= {"shared_buffers": "16MB", "max_connections": "5"}


@contextlib.contextmanager
def running() -> Iterator[Any]:
    """A connection to a fresh server; skips, and says why, where there can be none."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: no test runs in PostgreSQL")
    programs = _programs()
    if programs is None:
        pytest.skip("No PostgreSQL server is installed (no initdb found): no test runs in PostgreSQL")
    user = _unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="fieldcal-postgres-"))
    try:
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        data = folder / "data"
        options = ["-U", "tester", "-A", "trust", "-E", "UTF8", "--no-locale"]
        _run(user, folder, programs / "initdb", "-D", data, *options)
        port = _start(user, folder, programs, data)
        try:
            with psycopg.connect(
                host="127.0.0.1", port=port, user="tester", dbname="postgres", autocommit=True
            ) as link:
                yield link
        finally:
            _run(user, folder, programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    """Debian keeps them off the path, by version."""
    found = [Path(p) for p in [shutil.which("initdb")] if p]
    found += sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]), reverse=True
    )
    return found[0].resolve().parent if found else None


def _unprivileged() -> pwd.struct_passwd | None:
    """Whom to run as: the server refuses root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    pytest.skip("PostgreSQL does not run as root, and there is no user 'postgres' or 'nobody' to run it as")


def _start(user: pwd.struct_passwd | None, folder: Path, programs: Path, data: Path) -> int:
    """On a free port. Another process may take it before the server does, so there are three tries."""
    failure: Exception | None = None
    for _ in range(3):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        settings = " ".join(f"-c {name}={value}" for name, value in {**_SETTINGS, "port": port}.items())
        try:
            options = ["-l", folder / "server.log", "-o", settings, "-w", "start"]
            _run(user, folder, programs / "pg_ctl", "-D", data, *options)
        except subprocess.CalledProcessError as error:
            failure = error
        else:
            return port
    raise RuntimeError(f"It does not start: {(folder / 'server.log').read_text()[-2000:]}") from failure


def _run(user: pwd.struct_passwd | None, folder: Path, *command: Any) -> None:
    """The server inherits what it is given, so its output goes to a file and not to a pipe."""
    account = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    with (folder / "output.log").open("ab") as log:
        subprocess.run(
            [str(c) for c in command],
            check=True,
            cwd=folder,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            timeout=120,
            **account,
        )
