"""Two tiers of tests: `make test` leaves out those marked ``slow``, `make test-all` runs them all.

A test is slow if it says so, if it needs Spark, PostgreSQL or a browser, or if it repeats a test on a second engine.
Tests marked ``conformance`` run on every engine, all others on DuckDB; ``--every-engine`` runs all on all engines.
A test without the marker that takes more than a second of processor time fails; on a slower machine more, by the time
that a fixed piece of work takes there, and on a busy one by how many processes wait for each core.
"""

from __future__ import annotations

import importlib
import os
import time

import pytest

REFERENCE = "duckdb"
ENGINES = (
    REFERENCE,
    "pandas",
    "pandas-nullable",
    "pandas-pyarrow",
    "polars",
    "polars-lazy",
    "pyarrow",
    "spark",
)
_YARDSTICK = 0.055  # seconds, on the machine of the limit
SLOW_FIXTURES = {"spark", "postgres", "browser"}


def pytest_addoption(parser):
    parser.addoption(
        "--limit",
        type=float,
        default=5.0 if os.environ.get("CI") else 1.0,
        help="seconds of processor time that a fast test may take",
    )
    parser.addoption("--every-engine", action="store_true", help="run every test of tables on every engine")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: runs in `make test-all` only")
    config.addinivalue_line("markers", "conformance: runs on every engine")


def pytest_sessionstart(session):
    """Load what fieldcal loads on first use, so that no test pays for it."""
    scipy = ("scipy.interpolate", "scipy.optimize", "scipy.spatial", "scipy.stats")
    for module in (
        *scipy,
        "duckdb",
        "sqlglot",
        "pyarrow.parquet",
        "polars",
        "pandas",
        "matplotlib.figure",
        "fieldcal.reporting",
        "fieldcal.plots",
    ):
        importlib.import_module(module)


def pytest_generate_tests(metafunc):
    conforms = metafunc.definition.get_closest_marker("conformance") is not None
    everywhere = conforms or metafunc.config.getoption("every_engine")
    for fixture in sorted({"engine", "local_engine"} & set(metafunc.fixturenames)):  # alike in every process
        engines = [name for name in ENGINES if name != "spark" or fixture == "engine"]
        # Of the session, so that all tests on Spark run in a row, on one process if they can.
        metafunc.parametrize(fixture, engines if everywhere else [REFERENCE], indirect=True, scope="session")


def pytest_collection_modifyitems(items):
    for item in items:
        params = item.callspec.params.values() if hasattr(item, "callspec") else ()
        named = {*getattr(item, "fixturenames", ()), *map(str, params)}
        if named & (SLOW_FIXTURES | set(ENGINES) - {REFERENCE}):
            item.add_marker("slow")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    started = _processor_time()
    result = yield
    spent = _processor_time() - started
    fast = isinstance(item, pytest.Function) and item.get_closest_marker("slow") is None
    limit = item.config.getoption("limit")
    if fast and spent > limit and spent > limit * _slowness():
        pytest.fail(f"took {spent:.1f} s of processor time: make it faster, or mark it slow", pytrace=False)
    return result


def _processor_time():
    return sum(os.times()[:4])


def _slowness():
    """How many times slower than the idle machine of the limit this one is now; never below one."""
    started = time.process_time()
    sum(i * i for i in range(2_000_000))
    slower = max(1.0, (time.process_time() - started) / _YARDSTICK)
    return slower * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
