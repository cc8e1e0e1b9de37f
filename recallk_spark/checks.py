"""What must hold for every row of a table: the checks, and the refusals that stand where one is broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from recallk_spark.schema import MALFORMED, SKIPPED


@dataclass(frozen=True)
class Check:
    """One thing that must hold for every row of a table: `broken` is true on a row at fault.

    The refusal stands in `column`. `key` tells a person which row it is.
    """

    table: str
    column: str
    message: str
    broken: Column
    key: Column

    def guard(self, column: Column) -> Column:
        """`column`, or the refusal where the row is at fault."""
        head = f"{self.table}.{self.column}: {self.message} (for example ".replace("%", "%%")
        return F.when(self.broken, F.raise_error(F.format_string(f"{head}%s)", self.key))).otherwise(column)


def guard(name: str, checks: Sequence[Check]) -> Column:
    """The column with the refusals that stand in its place."""
    column = F.col(name)
    for check in checks:
        if check.column == name:
            column = check.guard(column)
    return column


def sound(frame: DataFrame) -> Column:
    """True on a row that a source read as a row: neither malformed (reported as such) nor skipped."""
    holds = F.lit(True)
    if MALFORMED in frame.columns:
        holds = holds & F.col(MALFORMED).isNull()
    skip = skipped(frame)
    return holds if skip is None else holds & ~skip


def skipped(frame: DataFrame) -> Column | None:
    """True on a line that a source left out on purpose; None where it leaves none out."""
    return F.coalesce(F.col(SKIPPED), F.lit(False)) if SKIPPED in frame.columns else None


def malformed(table: str, frame: DataFrame, column: str) -> list[Check]:
    """The check of the lines that a source could not read as a row; none where every row is one."""
    if MALFORMED not in frame.columns:
        return []
    return [Check(table, column, "malformed line", F.col(MALFORMED).isNotNull(), F.col(MALFORMED))]


def key_in_words(*parts: tuple[str, Column]) -> Column:
    """The row's key in words; one call in the generated code, which is small only then."""
    names, values = zip(*parts, strict=True)
    return F.format_string(", ".join(f"{name} %s" for name in names), *(value.cast("string") for value in values))
