"""Frames from literal rows, and results as dictionaries: a test shows its input beside its answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyspark
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from recallk_spark.watch import counts_retries

# what a refusal inside a plan ends in; the second where two stages meet it at once, which Spark does not translate
SPARK_ERRORS = (PySparkException, Py4JJavaError)

COUNTED_ON_THE_WAY = pytest.mark.skipif(
    counts_retries(pyspark.__version__), reason="before Spark 4.3 rows are counted by a look of its own, afterwards"
)


def scores(
    spark: SparkSession,
    rows: Iterable[tuple],
    *,
    score_type: str = "double",
    query_type: str | None = None,
    item_type: str | None = None,
) -> DataFrame:
    """Scores from (run, query, item, score[, rank]).

    Ids are strings or bigint, as the first row has them, unless a type is given.
    """
    rows = list(rows)
    ids = f"query_id {query_type or _id_type(rows, 1)}, item_id {item_type or _id_type(rows, 2)}"
    rank = ", rank int" if rows and len(rows[0]) > 4 else ""
    return spark.createDataFrame(rows, f"run_id string, {ids}, score {score_type}{rank}")


def relevance(
    spark: SparkSession,
    rows: Iterable[tuple],
    *,
    grade_type: str = "double",
    query_type: str | None = None,
    item_type: str | None = None,
) -> DataFrame:
    """Relevance from (query, item[, grade]); grades may be written as integers."""
    rows = list(rows)
    ids = f"query_id {query_type or _id_type(rows, 0)}, item_id {item_type or _id_type(rows, 1)}"
    if rows and len(rows[0]) == 2:
        return spark.createDataFrame(rows, ids)
    if grade_type in ("double", "float"):
        rows = [(query, item, None if grade is None else float(grade)) for query, item, grade in rows]
    return spark.createDataFrame(rows, f"{ids}, grade {grade_type}")


def queries(
    spark: SparkSession, rows: Iterable[tuple], *, columns: Sequence[str] = (), query_type: str | None = None
) -> DataFrame:
    """The queries table from (query, slice value ...), the slice columns being strings."""
    rows = list(rows)
    slices = "".join(f", {column} string" for column in columns)
    return spark.createDataFrame(rows, f"query_id {query_type or _id_type(rows, 0)}{slices}")


def profile_rows(evaluation: Any) -> dict[tuple[str, str, str, int], dict[str, Any]]:
    """The rows of an evaluation's profile by (run, slice, slice value, k), of the only min_grade."""
    return keyed(evaluation.profile(), "run_id", "slice", "slice_value", "k")


def profiles(evaluation: Any) -> dict[float, dict[tuple[str, str, str, int], dict[str, Any]]]:
    """The same by min_grade, of which there may be several."""
    found: dict[float, dict[tuple, dict[str, Any]]] = {}
    for (grade, *key), row in keyed(evaluation.profile(), "min_grade", "run_id", "slice", "slice_value", "k").items():
        found.setdefault(grade, {})[tuple(key)] = row
    return found


def per_query_rows(evaluation: Any) -> dict[tuple[str, Any], dict[str, Any]]:
    """The rows of an evaluation's per-query table by (run, query)."""
    return keyed(evaluation.per_query(), "run_id", "query_id")


def side_by_side(function: Callable[[Any], Any], given: Iterable[Any]) -> list[Any]:
    """The function's values, two at a time: most of a small job is planning, which keeps one core busy."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(function, given))


def keyed(frame: DataFrame, *key: str) -> dict[Any, dict[str, Any]]:
    """The rows of a small frame by the columns of its key, which must be unique."""
    rows = [row.asDict() for row in frame.collect()]
    by_key: dict[tuple[Hashable, ...], dict[str, Any]] = {tuple(row[c] for c in key): row for row in rows}
    assert len(by_key) == len(rows), f"{key} repeats in {len(rows) - len(by_key)} rows"
    return by_key


@contextmanager
def settings(spark: SparkSession, changed: Mapping[str, str]) -> Iterator[None]:
    """The session with other settings for a while."""
    before = {key: spark.conf.get(key) for key in changed}
    for key, value in changed.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, str(value))


def _id_type(rows: Sequence[tuple], position: int) -> str:
    return "bigint" if rows and isinstance(rows[0][position], int) else "string"
