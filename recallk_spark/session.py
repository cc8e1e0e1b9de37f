"""The Spark session of the command line, and what Spark's own errors mean for a caller."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from recallk_spark.errors import ContractError, Fault, InputError, RecallkError, SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_JAVA = 17
DEFAULT_CONNECT_PORT = 15002
_QUIET = Path(__file__).with_name("quiet-log4j2.properties")
GROUP_LIMIT_THRESHOLD = "spark.sql.optimizer.windowGroupLimitThreshold"

# Error classes by which Spark says that what it was given to read is at fault
_INPUT_ERRORS = (
    "FAILED_READ_FILE",
    "CANNOT_READ_FILE",
    "UNABLE_TO_INFER_SCHEMA",
    "PATH_NOT_FOUND",
    "TABLE_OR_VIEW_NOT_FOUND",
    "UNRESOLVED_COLUMN",
    "MALFORMED_",
    "CAST_INVALID_INPUT",
    "CANNOT_PARSE",
)


def start(*, master: str | None, remote: str | None, conf: Mapping[str, str], depth: int) -> SparkSession:
    """The session a command runs in: the active one as it is, or a new one with the settings the job is best run with.

    Raises:
        SparkError: Java is missing or too old, or Spark does not start.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - the command line starts without Spark

    active = SparkSession.getActiveSession()
    if active is not None and not remote:
        return active
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit, which has decided on master and memory
    if remote:
        require_server(remote)
    elif not submitted:
        require_java()
    builder = SparkSession.builder.appName("recallk")
    if remote:
        builder = builder.remote(remote)
    elif not submitted:
        builder = builder.master(master or "local[*]")
    settings = _defaults(local=not remote and not submitted and (master or "local").startswith("local"), depth=depth)
    if not remote:  # static settings, which a server's session refuses
        # the classes of one evaluation are more than the hundred that are kept: each would be compiled anew, by Janino
        # and by the JIT, in every evaluation of a session
        settings["spark.sql.codegen.cache.maxEntries"] = "2000"
        # else each of some thousand column expressions asks Python for its line and the JVM to note it
        settings["spark.python.sql.dataFrameDebugging.enabled"] = "false"
    for name, value in {**settings, **conf}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise SparkError(f"Spark does not start: {first_line(error)}") from error


def _defaults(*, local: bool, depth: int) -> dict[str, str]:
    settings = {
        # '007' is a name, not 7
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        # a list is cut while it is ranked as long as depth is within this
        GROUP_LIMIT_THRESHOLD: str(max(1000, depth)),
        # results are counted in hundreds of thousands of groups; the first, fast map of an aggregation holds 65,536
        "spark.sql.codegen.aggregate.fastHashMap.capacityBit": "20",
        # the number of a stage depends on which of its neighbours ends first; in the name of a class it would have the
        # same code compiled again
        "spark.sql.codegen.useIdInClassName": "false",
    }
    if local:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30 if hasattr(os, "sysconf") else 4
        settings |= {
            "spark.driver.memory": f"{max(1, min(8, memory // 2))}g",
            "spark.sql.shuffle.partitions": "16",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            # not extraJavaOptions, which would take the place of what spark-defaults.conf says
            "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()}",
        }
    return settings


def require_java() -> None:
    """Refuses to start Spark without a Java that can run it, in one line that says how to get one.

    Raises:
        SparkError: Java is missing or too old.
    """
    how = f"install Java {MIN_JAVA}, for example: apt-get install openjdk-17-jre-headless, or brew install openjdk@17"
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if not java:
        where = f"in JAVA_HOME ({home})" if home else "on PATH"
        raise SparkError(f"Spark needs Java {MIN_JAVA} or newer, and there is none {where}; {how}")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    major = int(found[2] if found and found[1] == "1" and found[2] else found[1]) if found else 0
    if major < MIN_JAVA:
        raise SparkError(f"Spark needs Java {MIN_JAVA} or newer, and {java} is {major or 'no Java'}; {how}")


def require_server(remote: str) -> None:
    """Refuses to wait for a Spark Connect server that does not listen: its client would try for ten minutes.

    Where a proxy stands between, only the client can tell.

    Raises:
        SparkError: nothing listens at the address.
    """
    proxied = {name.lower() for name in os.environ} & {"grpc_proxy", "https_proxy", "http_proxy"}
    found = re.match(r"sc://(\[.+?\]|[^:/;]+)(?::(\d+))?(?:/|$)", remote)
    if proxied or not found:  # Spark says itself what is wrong with another address
        return
    host, port = found[1].strip("[]"), int(found[2] or DEFAULT_CONNECT_PORT)
    try:
        socket.create_connection((host, port), timeout=30).close()
    except (OSError, OverflowError) as error:
        raise SparkError(f"no Spark Connect server at {host}:{port}: {error}") from None


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turns Spark's exceptions inside the block into ours, with one line for a person.

    Raises:
        ContractError: the plan met a row that the contract refuses.
        InputError: Spark could not find or read an input.
        SparkError: anything else.
    """
    try:
        yield
    except RecallkError:
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j", "grpc")):
            raise
        raise translate(error) from error


def translate(error: Exception) -> RecallkError:
    """Our error for one of Spark's, by its error class and message."""
    text = str(error)
    refused = re.search(r"\[USER_RAISED_EXCEPTION\] (.*?)(?: SQLSTATE: P0001|\n|$)", text)
    if refused:
        return ContractError([Fault("input", "", refused[1])])
    if any(f"[{name}" in text for name in _INPUT_ERRORS) or "is not a Parquet file" in text:
        return InputError(f"cannot read an input: {_reason(text)}")
    return SparkError(f"Spark failed: {_reason(text)}")


def first_line(error: BaseException) -> str:
    """The first line of an exception's text that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _reason(text: str) -> str:
    """The deepest cause that a Java trace names, else its first line."""
    causes = re.findall(r"Caused by: [\w.$]+: (.*)", text)
    said = causes[-1] if causes else next((line for line in text.splitlines() if line.strip()), "no reason given")
    return re.sub(r"\s+", " ", said).strip()[:500]
