"""Nobody is let in: nothing is unpickled or evaluated, no network is used, and a wheel is made of its sources alone."""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sources import trees

ROOT = Path(__file__).parents[1]
FORBIDDEN_MODULES = {
    "pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve",
    "socket", "ssl", "http", "urllib", "urllib3", "requests", "httpx", "aiohttp", "ftplib", "smtplib", "xmlrpc",
}  # fmt: skip
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.usefixtures("parsed")
def test_no_module_unpickles_evaluates_or_calls_a_network():
    for path, tree in trees().items():
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        called = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
        options = {keyword.arg for call in calls for keyword in call.keywords}
        found = {name.partition(".")[0] for name in imported(tree)} & FORBIDDEN_MODULES
        found |= called & FORBIDDEN_CALLS | options & {"allow_pickle", "shell"}
        assert not found, f"{path}: {found}"


WITHOUT_A_SOCKET = """
import socket, sys

def refuse(*args, **options):
    raise SystemExit(f"a socket was used: {args}")

socket.socket.connect = socket.socket.connect_ex = socket.socket.bind = refuse
socket.create_connection = socket.getaddrinfo = socket.gethostbyname = refuse
from fieldcal.cli.main import main
main(sys.argv[1:])
"""


def alone():
    """A command that runs another one where there is no network, if this machine lets us."""
    without = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    if shutil.which("unshare") and subprocess.run([*without, "true"], check=False).returncode == 0:
        return without
    return []


@pytest.mark.slow
def test_fault_44_the_whole_demo_runs_without_a_network_and_without_a_socket(tmp_path):
    run = [*alone(), sys.executable, "-c", WITHOUT_A_SOCKET, "demo"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "a socket was used" not in done.stdout + done.stderr


def wheel(folder: Path) -> Path:
    """The wheel of a copy of the project, made without a network by the build backend itself."""
    kept = shutil.ignore_patterns("__pycache__", ".*", "build", "dist", "tests", "experiments", "benchmarks")
    shutil.copytree(ROOT, folder, ignore=kept)
    code = "import sys; from hatchling.build import build_wheel; build_wheel('out')"
    environment = {k: v for k, v in os.environ.items() if k != "SOURCE_DATE_EPOCH"}
    subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, check=True, capture_output=True)
    return next((folder / "out").glob("*.whl"))


def test_a_wheel_is_the_same_to_the_last_byte_wherever_and_whenever_it_is_made(tmp_path):
    one = wheel(tmp_path / "one")
    (tmp_path / "elsewhere").mkdir()
    two = wheel(tmp_path / "elsewhere" / "two")
    assert one.name == two.name
    digests = {hashlib.sha256(made.read_bytes()).hexdigest() for made in (one, two)}
    assert len(digests) == 1
