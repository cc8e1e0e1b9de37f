"""A Spark Connect server on this machine for the tests that need one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests import quick

STARTED_WITHIN = 120  # seconds


@pytest.fixture(scope="session")
def connect_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of its own process, with the jars of the installed pyspark."""
    folder = tmp_path_factory.mktemp("connect")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = Path(pyspark.__file__).parent
    settings = {
        **quick.LOCAL,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    command = [
        *(str(home / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "2g"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *(part for name, value in settings.items() for part in ("--conf", f"{name}={value}")),
        "spark-internal",
    ]
    log = folder / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait(server, port, log)
            yield f"sc://127.0.0.1:{port}"
        finally:
            server.terminate()  # spark-submit has become the JVM by exec
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + STARTED_WITHIN
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail(f"the Spark Connect server did not start:\n{log.read_text(errors='replace')[-2000:]}")
