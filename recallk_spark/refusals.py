"""What the counts of an evaluation say against its input: the refusals and warnings that need the whole input.

Rows that break the contract are found by the `Watch` of the scan. Here is what only a finished count can tell: an
empty table, a run with no query in common with relevance, a query that an `error` policy forbids. Counts come from
the rows of the profile; an example key is looked up only when there is something to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from recallk_spark.chain import Chain
from recallk_spark.errors import ContractError, Fault
from recallk_spark.judging import has_no_relevant, no_relevant_words
from recallk_spark.lists import is_counted
from recallk_spark.policies import (
    DuplicateRelevance,
    Duplicates,
    MissingQueries,
    NoRelevant,
    ShortLists,
    UnjudgedQueries,
)
from recallk_spark.protocol import Protocol
from recallk_spark.ranking import REPEATS
from recallk_spark.schema import GRADE, ITEM, MIN_GRADE, QUERY, RUN, TOTAL

LOW_MATCH_SHARE = 1 / 1000  # below this share of judged results, ids of the two sides are probably written differently

Row = Mapping[str, Any]


def total_rows(profile: Sequence[Row], protocol: Protocol, *, min_grade: float | None = None) -> list[Row]:
    """The row of each run over all its queries at the largest cutoff and one min_grade, the lowest if none is named.

    They stand by run. Rows that name no run have a fault of their own.
    """
    place = (TOTAL, protocol.max_cutoff, min_grade or protocol.min_grades[0])
    rows = [row for row in profile if (row["slice"], row["k"], row[MIN_GRADE]) == place and row[RUN]]
    return sorted(rows, key=lambda row: str(row[RUN]))


def require_sound(chain: Chain, profile: Sequence[Row], *, allow_empty: bool = False) -> None:
    """Refuses the input when its scan or the counts of its profile found a fault.

    Args:
        chain: the evaluation, with a watch whose action has ended.
        profile: the rows of its profile.
        allow_empty: whether no score row at all is accepted.

    Raises:
        ContractError: carrying every fault.
    """
    faults = find_faults(chain, profile, allow_empty=allow_empty)
    if faults:
        raise ContractError(faults)


def find_faults(chain: Chain, profile: Sequence[Row], *, allow_empty: bool = False) -> list[Fault]:
    """Every fault that the scan and the counts found, without examples where looking for one failed."""
    watch = chain.watch
    if watch is None:
        raise ValueError("faults are counted by a chain that watches its inputs")
    faults = watch.faults()
    first, second = watch.rows_read_twice() or (0, 0)
    if first != second:
        faults.append(Fault("scores", "", f"changed while they were read: {first:,} rows, then {second:,}"))
    score_rows = watch.counts("scores").get("rows", 0)
    if not allow_empty and not score_rows:
        faults.append(Fault("scores", "", "no score rows at all"))
    if score_rows and not watch.counts("relevance").get("rows", 0):  # without results no label need be read
        faults.append(Fault("relevance", "", "no labels at all"))
    totals = total_rows(profile, chain.protocol)
    faults += _of_relevance(chain, totals, total_rows(profile, chain.protocol, min_grade=chain.protocol.min_grades[-1]))
    for row in totals:
        faults += _of_run(chain, row)
    return faults


def warnings(chain: Chain, profile: Sequence[Row]) -> list[str]:
    """What is allowed but probably not meant: a run that hardly meets relevance at all."""
    found = []
    for row in total_rows(profile, chain.protocol):
        results, judged = row["results"], row["judged_results"]
        if results and judged / results < LOW_MATCH_SHARE:
            found.append(
                f"run '{row[RUN]}': {judged:,} of {results:,} results meet a label, fewer than 1 in 1,000; "
                f"items look like {_looks(chain.scores, ITEM)} in scores, {_looks(chain.relevance, ITEM)} in relevance"
            )
    return found


def _of_relevance(chain: Chain, totals: Sequence[Row], highest: Sequence[Row]) -> Iterator[Fault]:
    """Faults that do not depend on the run, from the totals at the lowest min_grade and at the highest.

    At the highest most queries have no relevant item; at the lowest most are counted, so most are missing or short.
    """
    protocol = chain.protocol
    if not totals:
        return
    row = totals[0]
    if protocol.duplicate_relevance is DuplicateRelevance.ERROR and row["duplicate_labels"]:
        repeated = chain.relevance.groupBy(QUERY, ITEM).agg(F.count(GRADE).alias("n")).where("n > 1")
        message = "duplicate labels of a (query, item), and duplicate_relevance = error"
        yield Fault("relevance", ITEM, message, row["duplicate_labels"], _example(repeated, QUERY, ITEM))
    if row["duplicate_queries"]:
        repeated = chain.topics.where("copies > 1")
        yield Fault("queries", QUERY, "duplicate query_id", row["duplicate_queries"], _example(repeated, QUERY))
    if protocol.no_relevant is NoRelevant.ERROR and highest[0]["queries_no_relevant"]:
        bare = chain.topics.where(has_no_relevant(protocol))
        message = f"judged queries {no_relevant_words(protocol)}"
        yield Fault("relevance", QUERY, message, highest[0]["queries_no_relevant"], _example(bare, QUERY))


def _of_run(chain: Chain, row: Row) -> Iterator[Fault]:
    protocol, run = chain.protocol, row[RUN]
    mine = F.col(RUN) == run
    if not row["queries_in_run"]:
        message = (
            f"run '{run}' has no query in common with the judged ones; query ids look like "
            f"{_looks(chain.scores, QUERY)} in scores, {_looks(chain.topics, QUERY)} in relevance"
        )
        yield Fault("scores", QUERY, message)
        return
    missing = mine & ~F.col("in_run") & is_counted(protocol)
    rules: list[tuple[bool, str, str, Callable[[], DataFrame]]] = [
        (
            protocol.duplicates is Duplicates.ERROR,
            "duplicate_results",
            "duplicate results within depth, and duplicates = error",
            lambda: chain.ranked.where(mine & (F.col(REPEATS) > 0)),
        ),
        (
            protocol.missing_queries is MissingQueries.ERROR,
            "queries_missing",
            "missing queries, and missing_queries = error",
            lambda: chain.per_query.where(missing),
        ),
        (
            protocol.unjudged_queries is UnjudgedQueries.ERROR,
            "queries_unjudged",
            "unjudged queries, and unjudged_queries = error",
            lambda: chain.lists.where(mine).join(chain.topics, on=QUERY, how="left_anti"),
        ),
        (
            protocol.short_lists is ShortLists.ERROR,
            "queries_short",
            f"lists shorter than {protocol.max_cutoff}, and short_lists = error",
            lambda: chain.per_query.where(mine & F.col("counted") & (F.col("num_retrieved") < protocol.max_cutoff)),
        ),
    ]
    for active, count, message, at_fault in rules:
        if active and row[count]:
            frame = at_fault()
            keys = (QUERY, ITEM) if ITEM in frame.columns else (QUERY,)
            yield Fault("scores", keys[-1], f"run '{run}': {message}", row[count], _example(frame, *keys))


def _example(frame: DataFrame, *keys: str) -> str:
    """The smallest key of the frame, written out; '' when it has no row."""
    row = frame.agg(F.min(F.struct(*keys)).alias("key")).first()
    key = row["key"] if row else None
    return ", ".join(f"{name.removesuffix('_id')} {key[name]}" for name in keys) if key else ""


def _looks(frame: DataFrame, column: str) -> str:
    """How the ids of a column look: type, smallest and largest, padding and case, for a person to compare."""
    text = F.col(column).cast("string")
    traits: dict[str, Column] = {
        "leading zeros": text.rlike("^0[0-9]"),
        "blanks around": text != F.trim(text),
        "upper case": text != F.lower(text),
    }
    row = frame.agg(
        F.min(column).alias("least"),
        F.max(column).alias("most"),
        *(F.coalesce(F.max(trait), F.lit(False)).alias(name) for name, trait in traits.items()),
    ).first()
    if row is None or row["least"] is None:
        return "nothing"
    kind = frame.schema[column].dataType.simpleString()
    seen = [name for name in traits if row[name]]
    return f"{kind} {row['least']!r} to {row['most']!r}" + (f" ({', '.join(seen)})" if seen else "")
