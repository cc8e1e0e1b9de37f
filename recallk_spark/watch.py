"""The watch: what breaks the checks of a table is counted while an action reads it, and looked up when there is any."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from recallk_spark.checks import Check
from recallk_spark.errors import Fault

AHEAD = "scores ahead"  # the name under which the rows of the first of two scans of the scores are counted

_BROKEN = "broken"
_DIGEST = ("digest_high", "digest_middle", "digest_low")


@dataclass(frozen=True)
class _Watched:
    """A table under watch: its rows before they are counted, what is counted, and by what (None: a look of its own)."""

    frame: DataFrame
    checks: Sequence[Check]
    aggregates: Sequence[Column]
    observation: Observation | None

    def in_passing(self) -> dict[str, Any]:
        """What was counted, by name; nothing where Spark did not read the table or leaves out a plan without rows."""
        if self.observation is None:
            return {}
        try:
            return self.observation.get
        except Exception:  # an observation whose plan was optimised away has no row, and each Spark says so differently
            return {}

    def by_a_look(self) -> dict[str, Any]:
        """The same, counted by an action of its own."""
        row = self.frame.agg(*self.aggregates).first()
        return row.asDict() if row else {}


@dataclass
class Watch:
    """Counts what is at fault in the rows that flow through an action, without stopping it.

    `counts()` and `faults()` wait for the action that reads the watched frames to have ended. Little is counted on
    the way, since it costs each row: which check was broken, and by which row, is looked up only when one was.
    """

    _watched: dict[str, _Watched] = field(default_factory=dict)
    _seen: dict[str, dict[str, Any]] = field(default_factory=dict)

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
        aggregates += [F.count_if(condition).alias(name) for name, condition in counted.items()]
        if checks:
            aggregates.append(F.count_if(reduce(or_, (check.broken for check in checks))).alias(_BROKEN))
        if content is not None:
            aggregates += _digest_parts(content)
        observation = None if counts_retries(frame.sparkSession.version) else Observation()
        self._watched[table] = _Watched(frame, checks, aggregates, observation)
        return frame if observation is None else frame.observe(observation, *aggregates)

    def counts(self, table: str) -> dict[str, int]:
        """Rows of `table` and its other counted rows, by name."""
        observed = self._observed(table)
        apart = (_BROKEN, *_DIGEST)
        return {name: int(value or 0) for name, value in observed.items() if name not in apart}

    def digests(self) -> dict[str, str]:
        """Per table but the scores, a digest of its content that does not depend on the order of rows (hex)."""
        apart = ("scores", AHEAD)
        return {name: _digest(self._observed(name)) for name in self._watched if name not in apart}

    def repairs(self) -> dict[str, int]:
        """How many rows were left out or put last, over all tables: invalid_scores, skipped_lines."""
        counted = [self.counts(table) for table in self._watched]
        return {name: sum(table.get(name, 0) for table in counted) for name in ("invalid_scores", "skipped_lines")}

    def faults(self) -> list[Fault]:
        """Every check that some row broke, with the number of such rows and the smallest key.

        A table with broken rows is read once more for it.
        """
        found = []
        for table, watched in self._watched.items():
            if broken := int(self._observed(table).get(_BROKEN) or 0):
                changed = "rows that broke the contract are gone: it changed while it was read"
                found += _faults(watched) or [Fault(table, "", changed, broken)]
        return found

    def rows_read_twice(self) -> tuple[int, int] | None:
        """Rows of the scores by the first and by the second scan; None where only one was run.

        Where there is no label to meet, Spark leaves the first one out.
        """
        first = self.counts(AHEAD).get("rows", 0) if AHEAD in self._watched else 0
        return (first, self.counts("scores").get("rows", 0)) if first else None

    def _observed(self, table: str) -> dict[str, Any]:
        if table not in self._seen:
            watched = self._watched[table]
            # a look of its own says nothing of the first of two scans
            self._seen[table] = watched.in_passing() or ({} if table == AHEAD else watched.by_a_look())
        return self._seen[table]


def _faults(watched: _Watched) -> list[Fault]:
    """The checks that rows of the table break, by one more look at it."""
    looks = []
    for number, check in enumerate(watched.checks):
        looks.append(F.count_if(check.broken).alias(f"broken_{number}"))
        looks.append(F.min(F.when(check.broken, check.key)).alias(f"example_{number}"))
    row = watched.frame.agg(*looks).first()
    seen = row.asDict() if row else {}
    return [
        Fault(check.table, check.column, check.message, seen[f"broken_{number}"], str(seen[f"example_{number}"]))
        for number, check in enumerate(watched.checks)
        if seen.get(f"broken_{number}")
    ]


def counts_retries(spark_version: str) -> bool:
    """Whether an observation counts the rows of a task again when it is run again: before Spark 4.3."""
    found = re.match(r"(\d+)\.(\d+)", spark_version)
    return found is not None and (int(found[1]), int(found[2])) < (4, 3)


def _digest_parts(content: Column) -> list[Column]:
    """Three sums that make up the sum of a signed 64-bit hash: none overflows below 2^41 rows."""
    pieces = (
        F.shiftright(content, 43),
        F.shiftright(content, 22).bitwiseAND(2**21 - 1),
        content.bitwiseAND(2**22 - 1),
    )
    return [F.sum(piece).alias(name) for piece, name in zip(pieces, _DIGEST, strict=True)]


def _digest(observed: Mapping[str, Any]) -> str:
    high, middle, low = (int(observed.get(name) or 0) for name in _DIGEST)
    return f"{((high << 43) + (middle << 22) + low) % 2**128:032x}"
