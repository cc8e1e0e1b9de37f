"""One local Spark session for every test that needs one; tests/unit never asks for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import quick

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.master("local[2]").appName("recallk-tests")
    settings = {
        **quick.LOCAL,
        "spark.sql.warehouse.dir": str(warehouse / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.driver.memory": "2g",
        # both tiers of the JIT: Spark's own planning, of which most of the time is spent, is run for many minutes
        "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -Dderby.system.home={warehouse}",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_conf_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A SPARK_CONF_DIR for other processes whose jobs are as small as those of these tests."""
    folder = tmp_path_factory.mktemp("spark-conf")
    lines = [f"{name} {value}\n" for name, value in quick.LOCAL.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    return str(folder)


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of real runs and judgments; tests that need it skip where it is absent, but fail under CI."""
    folder = SHARED / "golden"
    if folder.is_dir():
        return folder
    if os.environ.get("CI") == "true":
        pytest.fail(f"{folder} is absent, and CI=true requires it")
    pytest.skip("the golden data folder is absent beside the checkout")
