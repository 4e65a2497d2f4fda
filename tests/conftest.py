"""What tests in several folders share: the engines that tables live in."""

from __future__ import annotations

import os
import shutil
import sys
import warnings

import pytest

pytest.register_assert_rewrite("tables.engines", "tables.truth")


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A Spark session on two cores; one per process that runs tests, as it takes seconds to start."""
    pytest.importorskip("pyspark", reason="PySpark is not installed, so nothing is tested on Spark")
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        pytest.skip("Java is not installed, so nothing is tested on Spark")
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_LOCAL_IP", "127.0.0.1")  # so that no name is looked up in a network
        environment.setenv("PYSPARK_PYTHON", sys.executable)  # or the first on the path, which may be another
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        from pyspark.sql import SparkSession

        here = tmp_path_factory.mktemp("spark")
        builder = SparkSession.builder.master("local[2]").appName("tests of fieldcal")
        for name, value in _SPARK.items():
            builder = builder.config(name, value)
        builder = builder.config("spark.sql.warehouse.dir", str(here / "warehouse"))
        session = builder.config("spark.local.dir", str(here)).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


_SPARK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # Rows of a small table must take the way of a big one, not be worked out while the query is planned.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
    # Queries of a test run once: compile them quickly.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
}


@pytest.fixture(scope="session")
def engine(request):
    """DuckDB; in a test of conformance every engine in turn (see `tiers`)."""
    from tables.engines import Engine

    return Engine(request.param, request.getfixturevalue("spark") if request.param == "spark" else None)


@pytest.fixture(scope="session")
def local_engine(request):
    """The same without Spark, for what would take too long there."""
    from tables.engines import Engine

    return Engine(request.param)


@pytest.fixture(scope="session")
def parsed():
    """The source is parsed, so that its cost is that of no single test."""
    from sources import trees

    return trees()


@pytest.fixture
def session():
    """A session that reads and writes files, on two threads."""
    from fieldcal.tables.files.session import Session

    with Session(threads=2) as opened:
        yield opened
