"""Lists as recommenders write them: one row per query, with an array of (item, score)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructType

from recallk_spark.errors import InputError
from recallk_spark.schema import EMPTY_LIST, ITEM, MALFORMED, RANK, SCORE, SKIPPED

ARRAY_NAMES = ("items", "recommendations")  # which array of structs is meant where there are several


def from_arrays(frame: DataFrame) -> DataFrame:
    """One row per result from one row per query: query_id and an array of (item, score) structs, in list order.

    The structs are read by position, whatever their fields are called; the array is the only array of structs, or
    the one named 'items' or 'recommendations'. Beside item_id and score each row has its 1-based `rank` in the
    array and `_empty_list`; an empty or null array is one row with nulls and `_empty_list` true. Other columns,
    such as run_id, are kept.

    Raises:
        InputError: no such array, or not clear which; structs without exactly two fields; a column in the way.
    """
    name, (item, score) = _array(frame)
    kept = [column for column in frame.columns if column != name]
    in_the_way = sorted({ITEM, SCORE, RANK} & set(kept))
    if in_the_way:
        raise InputError(f"arrays: column '{in_the_way[0]}' stands beside the array '{name}'; drop or rename it")
    empty = F.col("_position").isNull()
    if MALFORMED in kept:  # a line that could not be read says nothing about its query
        empty = empty & F.col(MALFORMED).isNull() & ~F.col(SKIPPED)
    entry = F.col("_entry")
    return frame.select(*kept, F.posexplode_outer(name).alias("_position", "_entry")).select(
        *kept,
        entry.getField(item).alias(ITEM),
        entry.getField(score).alias(SCORE),
        (F.col("_position") + 1).alias(RANK),
        empty.alias(EMPTY_LIST),
    )


def _array(frame: DataFrame) -> tuple[str, tuple[str, str]]:
    """The column that holds the lists, and the names of its structs' two fields."""
    arrays = {
        field.name: field.dataType.elementType.names
        for field in frame.schema.fields
        if isinstance(field.dataType, ArrayType) and isinstance(field.dataType.elementType, StructType)
    }
    names = list(arrays) if len(arrays) == 1 else [name for name in ARRAY_NAMES if name in arrays]
    if not names:
        raise InputError(
            "arrays: one column must be an array of (item, score) structs, or be named 'items'; "
            f"arrays of structs: {', '.join(arrays) or 'none'}; columns: {', '.join(frame.columns)}"
        )
    fields = arrays[names[0]]
    if len(fields) != 2:
        raise InputError(f"arrays: structs of '{names[0]}' are ({', '.join(fields)}); exactly item and score are read")
    return names[0], (fields[0], fields[1])
