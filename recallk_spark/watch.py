"""Checks of the rows of a table, and the watch that counts what breaks them while an action reads the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from recallk_spark.errors import Fault
from recallk_spark.observing import observed

AHEAD = "scores ahead"  # the name under which the rows of the first of two scans of the scores are counted


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


@dataclass
class Watch:
    """Counts what is at fault in the rows that flow through an action, without stopping it.

    `counts()` and `faults()` wait for the action that reads the watched frames to have ended.
    """

    _observations: dict[str, tuple[Observation, Sequence[Check]]] = field(default_factory=dict)
    _seen: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def over(
        self,
        frame: DataFrame,
        table: str,
        checks: Sequence[Check],
        *,
        counted: Mapping[str, Column],
        content: Column | None = None,
    ) -> DataFrame:
        """`frame`, while its rows, its broken rows and the rows where each of `counted` is true are being counted.

        `content` is a hash of what a row says; the sum over the rows is the table's digest, whatever their order.
        """
        aggregates = [F.count(F.lit(1)).alias("rows")]
        if content is not None:
            aggregates.append(F.sum(content.cast("decimal(38,0)")).alias("digest"))
        aggregates += [F.count_if(condition).alias(name) for name, condition in counted.items()]
        for number, check in enumerate(checks):
            aggregates.append(F.count_if(check.broken).alias(f"broken_{number}"))
            aggregates.append(F.min(F.when(check.broken, check.key)).alias(f"example_{number}"))
        observation = Observation()
        self._observations[table] = (observation, checks)
        return frame.observe(observation, *aggregates)

    def counts(self, table: str) -> dict[str, int]:
        """Rows of `table` and its other counted rows, by name."""
        observed = self._observed(table)
        apart = ("broken_", "example_", "digest")
        return {name: int(value or 0) for name, value in observed.items() if not name.startswith(apart)}

    def digests(self) -> dict[str, str]:
        """Per table but the scores, a digest of its content that does not depend on the order of rows (hex)."""
        apart = ("scores", AHEAD)
        observed = {name: self._observed(name) for name in self._observations if name not in apart}
        return {name: f"{int(seen.get('digest') or 0) % 2**128:032x}" for name, seen in observed.items()}

    def repairs(self) -> dict[str, int]:
        """How many rows were left out or put last, over all tables: invalid_scores, skipped_lines."""
        counted = [self.counts(table) for table in self._observations]
        return {name: sum(table.get(name, 0) for table in counted) for name in ("invalid_scores", "skipped_lines")}

    def faults(self) -> list[Fault]:
        """Every check that some row broke, with the number of such rows and the smallest key; and empty tables."""
        found = []
        for table, (_, checks) in self._observations.items():
            observed = self._observed(table)
            for number, check in enumerate(checks):
                if count := int(observed.get(f"broken_{number}") or 0):
                    example = str(observed[f"example_{number}"])
                    found.append(Fault(table, check.column, check.message, count, example))
        return found

    def rows_read_twice(self) -> tuple[int, int] | None:
        """Rows of the scores by the first and by the second scan; None where only one was run.

        Where there is no label to meet, Spark leaves the first one out.
        """
        first = self.counts(AHEAD).get("rows", 0) if AHEAD in self._observations else 0
        return (first, self.counts("scores").get("rows", 0)) if first else None

    def _observed(self, table: str) -> Mapping[str, Any]:
        if table not in self._seen:
            self._seen[table] = observed(self._observations[table][0])
        return self._seen[table]
