"""From judged results to one row per list and per evaluated query: what every measure can be computed from."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from recallk_spark.policies import MissingQueries, NoRelevant, ShortLists
from recallk_spark.protocol import Protocol
from recallk_spark.ranking import REPEATS
from recallk_spark.schema import GRADE, ITEM, PER_QUERY, QUERY, RANK, RELEVANCE_SET_ALL, RUN

# one row is one run and query of that run: the length of its list (at most depth), ranks and grades of its judged
# items in rank order, each item once; and how many results within depth repeat another one
LISTS = (RUN, QUERY, "num_retrieved", "ranks", "grades", REPEATS)


def gather_lists(judged: DataFrame) -> DataFrame:
    """The lists of the runs: LISTS columns. Only judged results are gathered, the rest is counted.

    `repeats` is what ranking counted, or else the repeated rows of judged items.

    Args:
        judged: JUDGED and `repeats`.
    """
    gathered = judged.groupBy(QUERY, RUN).agg(
        F.expr(f"coalesce(max({RANK}), 0) as num_retrieved"),
        F.expr(f"sort_array(collect_list(if({GRADE} is null, null, struct({ITEM}, {RANK}, {GRADE})))) as by_item"),
        F.expr(f"sum({REPEATS}) as counted_repeats"),
    )
    return in_rank_order(gathered, repeats="coalesce(counted_repeats, size(by_item) - size(by_rank))")


def in_rank_order(gathered: DataFrame, *, repeats: str) -> DataFrame:
    """LISTS columns from lists whose judged results are in the order of item, then rank.

    Args:
        gathered: run_id, query_id, num_retrieved, by_item (item, rank, grade; every copy of an item or its best one).
        repeats: SQL over these and by_rank, the best copy of each item in rank order.
    """
    best_copies = f"filter(by_item, (result, place) -> place = 0 or result.{ITEM} != get(by_item, place - 1).{ITEM})"
    by_rank = f"sort_array(transform({best_copies}, result -> struct(result.{RANK}, result.{GRADE})))"
    return gathered.selectExpr("*", f"{by_rank} as by_rank").selectExpr(
        RUN,
        QUERY,
        "num_retrieved",
        f"by_rank.{RANK} as ranks",
        f"by_rank.{GRADE} as grades",
        f"bigint({repeats}) as {REPEATS}",
    )


def per_query(
    lists: DataFrame, topics: DataFrame, runs: DataFrame, *, protocol: Protocol, refuse: bool = True
) -> DataFrame:
    """One row per run and evaluated query, queries missing from the run included: PER_QUERY columns.

    Every measure at every k follows from a row: a hit is a rank whose grade is at least min_grade. `num_relevant` and
    `counted` are those of the lowest min_grade: a query that is missing or short at a higher one is so there too.

    Args:
        lists: LISTS.
        topics: TOPICS; those that are not listed are left out.
        runs: one column, run_id: the runs to report, one row each.
        protocol: no_relevant, missing_queries, short_lists and the fingerprint are read here.
        refuse: whether a query at odds with an `error` policy stops the job.
    """
    evaluated = topics.where("listed")
    rows = runs.join(evaluated, how="cross").join(lists, on=[RUN, QUERY], how="left")
    in_run = F.col("num_retrieved").isNotNull()
    retrieved = F.coalesce("num_retrieved", F.lit(0))
    counted = is_counted(protocol)
    if protocol.missing_queries is MissingQueries.EXCLUDE:
        counted = counted & in_run
    if refuse and protocol.missing_queries is MissingQueries.ERROR:
        rows = _refuse(rows, is_counted(protocol) & ~in_run, "missing query, and missing_queries = error")
    if refuse and protocol.short_lists is ShortLists.ERROR:
        short = counted & (retrieved < protocol.max_cutoff)
        message = f"list shorter than {protocol.max_cutoff}, and short_lists = error"
        rows = _refuse(rows, short, message)
    return rows.select(
        RUN,
        F.lit(RELEVANCE_SET_ALL).alias("relevance_set"),
        QUERY,
        in_run.alias("in_run"),
        counted.alias("counted"),
        "num_relevant",
        "num_judged",
        retrieved.alias("num_retrieved"),
        F.lit(None).cast("int").alias("num_relevant_returned"),
        F.coalesce("ranks", F.array().cast("array<int>")).alias("ranks"),
        F.coalesce("grades", F.array().cast("array<double>")).alias("grades"),
        "ideal_grades",
        "slices",
        F.lit(None).cast(PER_QUERY["weight"].dataType).alias("weight"),
        F.lit(protocol.fingerprint).alias("fingerprint"),
    ).select(*PER_QUERY.names)


def counted_text(protocol: Protocol) -> str:
    """Whether a judged query enters the means, as far as its |R| decides it: SQL over num_relevant."""
    return "true" if protocol.no_relevant in (NoRelevant.ZERO, NoRelevant.ONE) else "num_relevant > 0"


def is_counted(protocol: Protocol) -> Column:
    """The same as a column."""
    return F.expr(counted_text(protocol))


def _refuse(rows: DataFrame, at_fault: Column, message: str) -> DataFrame:
    """The rows, or the refusal where one is at fault: as a filter, which no choice of columns leaves out."""
    key = F.concat(
        F.lit(f"scores: {message} (for example run "), F.col(RUN), F.lit(", query "), F.col(QUERY), F.lit(")")
    )
    return rows.where(F.when(at_fault, F.raise_error(key)).otherwise(True))
