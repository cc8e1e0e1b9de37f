"""What a job's time limit ends, and whose fault a failure is."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from recallk_spark import running
from recallk_spark.errors import InputError, RecallkError, SparkError
from recallk_spark.opening import one_line_errors
from recallk_spark.running import time_limit
from recallk_spark.session import spark_errors
from recallk_spark.specs import Kind, parse_source


class Deaf:
    """A session that goes on with what it runs."""

    def interruptAll(self) -> list[str]:  # noqa: N802 - Spark's name
        return []


@pytest.fixture
def in_the_background() -> Iterator[None]:
    """SIGINT is ignored, as in what a shell script has put into the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("in_the_background")
def test_what_spark_does_not_interrupt_is_ended_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_INTERRUPTS", 1)
    began = time.monotonic()
    with (
        pytest.raises(SparkError, match=r"not finished within job_timeout = 0\.1 s"),
        time_limit(cast(Any, Deaf()), 0.1),
    ):
        time.sleep(20)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Job aborted: Task 0 failed 4 times: ExecutorLostFailure (executor 3 exited)", SparkError),
        ("Job 0 cancelled because SparkContext was shut down", SparkError),
        ("Could not read footer for file: part-0.parquet", InputError),
    ],
)
def test_executors_that_are_lost_while_an_input_is_opened_are_no_fault_of_the_input(
    text: str, fault: type[RecallkError]
) -> None:
    error = type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})(text)
    source = parse_source("scores.parquet", kind=Kind.SCORES)
    with pytest.raises(RecallkError) as raised, spark_errors(), one_line_errors(source):
        raise error
    assert type(raised.value) is fault
