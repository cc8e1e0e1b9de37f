"""From judged results to one row per list and per evaluated query: what every measure can be computed from."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from recallk_spark.protocol import MissingQueries, NoRelevant, Protocol, ShortLists
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
    result = F.when(F.col(GRADE).isNotNull(), F.struct(ITEM, RANK, GRADE))
    gathered = judged.groupBy(QUERY, RUN).agg(
        F.coalesce(F.max(RANK), F.lit(0)).alias("num_retrieved"),
        F.sort_array(F.collect_list(result)).alias("by_item"),
        F.sum(REPEATS).alias("counted_repeats"),
    )

    def is_best_copy(result: Column, place: Column) -> Column:
        above = F.get("by_item", place - 1)
        return (place == 0) | (result[ITEM] != above[ITEM])

    best_copies = F.filter("by_item", is_best_copy)
    by_rank = F.sort_array(F.transform(best_copies, lambda result: F.struct(result[RANK], result[GRADE])))
    listed = gathered.withColumn("by_rank", by_rank)
    repeats = F.coalesce("counted_repeats", F.size("by_item") - F.size("by_rank")).cast("bigint")
    return listed.select(
        RUN,
        QUERY,
        "num_retrieved",
        F.col("by_rank.rank").alias("ranks"),
        F.col("by_rank.grade").alias("grades"),
        repeats.alias(REPEATS),
    )


def per_query(
    lists: DataFrame, topics: DataFrame, runs: DataFrame, *, protocol: Protocol, refuse: bool = True
) -> DataFrame:
    """One row per run and evaluated query, queries missing from the run included: PER_QUERY columns.

    Every measure at every k follows from a row: a hit is a rank whose grade is at least min_grade.

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
        in_run = _refuse(is_counted(protocol) & ~in_run, "missing query, and missing_queries = error", in_run)
    if refuse and protocol.short_lists is ShortLists.ERROR:
        short = counted & (retrieved < protocol.max_cutoff)
        message = f"list shorter than {protocol.max_cutoff}, and short_lists = error"
        retrieved = _refuse(short, message, retrieved)
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


def is_counted(protocol: Protocol) -> Column:
    """Whether a judged query enters the means, as far as its |R| decides it (num_relevant)."""
    if protocol.no_relevant in (NoRelevant.ZERO, NoRelevant.ONE):
        return F.lit(True)
    return F.col("num_relevant") > 0


def _refuse(at_fault: Column, message: str, column: Column) -> Column:
    key = F.concat(
        F.lit(f"scores: {message} (for example run "), F.col(RUN), F.lit(", query "), F.col(QUERY), F.lit(")")
    )
    return F.when(at_fault, F.raise_error(key)).otherwise(column)
