"""Several inputs of one kind as one frame, without a value being changed on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType, IntegralType

from recallk_spark.errors import ContractError, Fault, did_you_mean
from recallk_spark.schema import EMPTY_LIST, ITEM, MALFORMED, QUERY, SKIPPED
from recallk_spark.specs import Kind, Source

_FLAGS = (SKIPPED, EMPTY_LIST)


def union(frames: Sequence[DataFrame], sources: Sequence[Source], kind: Kind, columns: Sequence[str]) -> DataFrame:
    """The rows of all frames, with the given columns that some frame has, and the notes on text rows.

    A single frame is returned as it is, with all its columns.

    Raises:
        ContractError: an id column that a frame lacks; a column whose types could be joined only by converting.
    """
    if len(frames) == 1:
        return frames[0]
    faults = [fault for column in columns for fault in _disagreements(frames, sources, kind, column)]
    if faults:
        raise ContractError(faults)
    kept = (*columns, MALFORMED, *_FLAGS)
    parts = [frame.select(*(name for name in kept if name in frame.columns)) for frame in frames]
    every = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
    return every.select(
        *(
            F.coalesce(name, F.lit(False)).alias(name) if name in _FLAGS else name
            for name in kept
            if name in every.columns
        )
    )


def _disagreements(frames: Sequence[DataFrame], sources: Sequence[Source], kind: Kind, column: str) -> Iterator[Fault]:
    """A union would convert quietly: '7' and 7 to one id, long scores to doubles, and fill columns with nulls."""
    types = [
        (frame.schema[column].dataType, source)
        for frame, source in zip(frames, sources, strict=True)
        if column in frame.columns
    ]
    for frame, source in zip(frames, sources, strict=True):
        if column not in frame.columns and column in (QUERY, ITEM):
            yield Fault(kind, column, f"no such column in {source}{did_you_mean(column, frame.columns)}")
    for data_type, source in types[1:]:
        first, first_source = types[0]
        if _family(data_type) != _family(first):
            shown = f"{first.simpleString()} in {first_source} and {data_type.simpleString()} in {source}"
            yield Fault(kind, column, f"is {shown}; nothing is converted, cast one of them")


def _family(data_type: DataType) -> str:
    """Types of one family go together without a value being changed."""
    if isinstance(data_type, IntegralType):
        return "integer"
    return "floating" if isinstance(data_type, FloatType | DoubleType) else data_type.typeName()
