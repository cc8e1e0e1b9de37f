"""Names and types of the columns of an input: faults that are found without reading a row."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, DecimalType, DoubleType, FloatType, IntegralType, StringType

from recallk_spark.errors import ContractError, Fault, did_you_mean
from recallk_spark.schema import EMPTY_LIST, ITEM, MALFORMED, QUERY, SKIPPED

NOTES = (MALFORMED, SKIPPED, EMPTY_LIST)  # columns that a source adds, which nobody has misspelt


def require_same_id_types(**tables: DataFrame) -> None:
    """Refuses tables whose ids are strings on one side and integers on the other, before any job runs.

    Raises:
        ContractError: naming both tables and both types.
    """
    faults = []
    for column in (QUERY, ITEM):
        types = {name: frame.schema[column].dataType for name, frame in tables.items() if column in frame.columns}
        first_name, first_type = next(iter(types.items()))
        for name, data_type in types.items():
            if data_type != first_type:
                message = (
                    f"is {data_type.simpleString()}, but {first_name}.{column} is {first_type.simpleString()}; "
                    "ids are never converted, cast one side yourself"
                )
                faults.append(Fault(name, column, message))
    if faults:
        raise ContractError(faults)


def missing_columns(table: str, frame: DataFrame, names: Sequence[str]) -> list[Fault]:
    """A fault for each column that is not there, with the nearest one that is."""
    return [
        Fault(table, name, f"no such column{did_you_mean(name, [c for c in frame.columns if c not in NOTES])}")
        for name in names
        if name not in frame.columns
    ]


def id_faults(table: str, frame: DataFrame, names: Sequence[str]) -> list[Fault]:
    """A fault for each id column that is neither of strings nor of integers."""
    faults = []
    for name in names:
        data_type = frame.schema[name].dataType if name in frame.columns else StringType()
        if isinstance(data_type, DoubleType | FloatType | DecimalType):
            message = f"ids are strings or integers, never {data_type.simpleString()}; cast it to bigint or string"
            faults.append(Fault(table, name, message))
        elif not isinstance(data_type, StringType | IntegralType):
            faults.append(Fault(table, name, f"ids are strings or integers, not {data_type.simpleString()}"))
    return faults


def type_fault(
    table: str, frame: DataFrame, name: str, types: tuple[type[DataType], ...], expected: str
) -> list[Fault]:
    """A fault if the column is there and of none of the types."""
    if name not in frame.columns or isinstance(frame.schema[name].dataType, types):
        return []
    return [Fault(table, name, f"is {frame.schema[name].dataType.simpleString()}; {expected}")]
