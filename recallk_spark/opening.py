"""The first step of reading an input: Spark opens its location, and the rows of one day are chosen.

What Spark says when it cannot open something becomes one line of an InputError.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StringType, StructField, StructType

from recallk_spark import locations
from recallk_spark.errors import InputError, did_you_mean
from recallk_spark.schema import MALFORMED, SKIPPED
from recallk_spark.specs import Format, Source
from recallk_spark.text_sources import LINE

_ISO_DAY = r"^\d{4}-\d{2}-\d{2}$"
_SPARKS_MODULES = ("pyspark.", "py4j.", "grpc.")  # not all are installed everywhere, so they are told by name
_LOST = ("ExecutorLostFailure", "SparkContext was shut down")  # Spark failed, whatever it was reading
_NEAREST = 2  # days shown on either side of one that is missing


class MissingDay(InputError):
    """Raised when an input has no partition for the day that is evaluated: a job may take it for 'no rows'.

    Attributes:
        day: the day that was looked for.
    """

    def __init__(self, message: str, day: str) -> None:
        super().__init__(message)
        self.day = day


def open_source(spark: SparkSession, source: Source) -> DataFrame:
    """The frame of a source as Spark opens it: rows of a table or of Parquet, or the lines of a text format.

    Partition columns of directories on this machine are text, whatever the session infers; elsewhere they follow
    `spark.sql.sources.partitionColumnTypeInference.enabled`.

    Raises:
        InputError: nothing there, nothing in it, or not readable in this format.
    """
    with one_line_errors(source):
        if source.format is Format.TABLE:
            frame = spark.read.table(source.location)
        elif locations.is_empty(source.location):
            raise InputError(f"{source}: the directory holds no data files")
        elif source.is_text:
            partitions = locations.partition_columns(source.location)
            schema = StructType([StructField(name, StringType()) for name in (LINE, *partitions)])
            frame = spark.read.schema(schema).text(source.location)
        else:
            frame = _open_parquet(spark, source.location)
        _ = frame.schema  # Spark Connect looks at the location only now
    return frame


def _open_parquet(spark: SparkSession, location: str) -> DataFrame:
    frame = spark.read.parquet(location)
    partitions = locations.partition_columns(location)
    if all(isinstance(frame.schema[name].dataType, StringType) for name in partitions):
        return frame
    # the session has inferred types, so '007' would be 7: the same again with partition values as they are written
    fields = [
        StructField(field.name, StringType() if field.name in partitions else field.dataType)
        for field in frame.schema.fields
    ]
    return spark.read.schema(StructType(fields)).parquet(location)


@contextmanager
def one_line_errors(source: Source) -> Iterator[None]:
    """Turns whatever Spark raises while it looks at a source into an InputError of one line."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(_SPARKS_MODULES) or any(text in str(error) for text in _LOST):
            raise
        raise InputError(f"{source}: {_fault(source, error)}") from None  # a Java trace helps nobody here


def _fault(source: Source, error: Exception) -> str:
    condition = getattr(error, "getCondition", lambda: None)()
    if condition == "PATH_NOT_FOUND":
        near = locations.near_name(source.location)
        if near == source.location:
            return "no such file or directory where Spark runs, though there is one here"
        hint = "" if "/" in source.location else f"; a table is written table:{source.location}"
        return "no such file or directory" + (f"; did you mean '{near}'?" if near else hint)
    if condition == "TABLE_OR_VIEW_NOT_FOUND":
        return "no such table or view"
    if condition == "UNABLE_TO_INFER_SCHEMA":
        return "no Parquet data there"
    hint = "; text files are written csv:, jsonl: or trec:" if source.format is Format.PARQUET else ""
    return f"cannot be read as {source.format}: {_first_line(error)}{hint}"


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith("An error occurred while calling")] or [type(error).__name__]
    without_class = re.sub(r"^:? ?\(?(?:[a-z]\w*\.)+[A-Z]\w*(?:: |\) )", "", said[0])
    return re.sub(r"\.? SQLSTATE: \w+.*$", "", without_class)


def of_day(frame: DataFrame, source: Source, *, wanted: Literal["ds", "latest"], ds: str, ds_column: str) -> DataFrame:
    """The rows of one day, without the column that says so: `ds` itself, or ('latest') the greatest day up to it.

    'latest' of anything but a partitioned directory on this machine asks Spark for the greatest day: a job. Lines
    that could not be read, and have no day, stay.

    Raises:
        MissingDay: a directory without a partition for that day; no day up to `ds`.
        InputError: no such column, or neither text nor dates in it.
    """
    _check_day_column(frame, source, ds=ds, ds_column=ds_column)
    days = None if source.format is Format.TABLE else locations.partition_values(source.location, ds_column)
    day = ds if wanted == "ds" else _latest(frame, source, days, ds=ds, ds_column=ds_column)
    if days is not None and day not in days:
        raise MissingDay(f"{source}: no partition {ds_column}={day}; {_nearest(days, day)}", day)
    rows = _is_day(frame, ds_column, day)
    if MALFORMED in frame.columns:
        noted = F.col(MALFORMED).isNotNull() | F.col(SKIPPED)
        rows = rows | (F.col(ds_column).isNull() & noted)
    return frame.where(rows).drop(ds_column)


def _check_day_column(frame: DataFrame, source: Source, *, ds: str, ds_column: str) -> None:
    if ds_column not in frame.columns:
        known = [name for name in frame.columns if name not in (MALFORMED, SKIPPED, LINE)]
        hint = did_you_mean(ds_column, known)
        if f"{ds_column}=" in source.location:
            hint = f"; give the directory above '{ds_column}=...'"
        raise InputError(f"{source}: no column '{ds_column}' to find the day {ds} by{hint}")
    data_type = frame.schema[ds_column].dataType
    if not isinstance(data_type, StringType | DateType):
        raise InputError(f"{source}: '{ds_column}' is {data_type.simpleString()}; a day is a string or a date")


def _is_day(frame: DataFrame, ds_column: str, day: str) -> Column:
    column = F.col(ds_column)
    is_date = isinstance(frame.schema[ds_column].dataType, DateType)
    return column == F.lit(datetime.date.fromisoformat(day) if is_date else day)


def _latest(frame: DataFrame, source: Source, days: Sequence[str] | None, *, ds: str, ds_column: str) -> str:
    if days is not None:
        found = max((day for day in days if re.match(_ISO_DAY, day) and day <= ds), default=None)
    else:
        day = F.col(ds_column).cast("string")
        row = frame.where(day.rlike(_ISO_DAY) & (day <= ds)).agg(F.max(day).alias("day")).first()
        found = row["day"] if row else None
    if found is None:
        raise MissingDay(f"{source}: no day up to {ds}" + (f"; {_nearest(days, ds)}" if days else ""), ds)
    return str(found)


def _nearest(days: Sequence[str], day: str) -> str:
    near = [other for other in days if other < day][-_NEAREST:] + [other for other in days if other > day][:_NEAREST]
    return f"nearest: {', '.join(near)}" if near else "there is none at all"
