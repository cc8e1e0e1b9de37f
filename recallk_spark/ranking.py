"""The order of results: the only room that knows about scores, ties and repeated results.

Total order: score (best first; -0.0 equals 0.0, infinities are ordinary values), then item id: strings by UTF-8
bytes, integers as numbers. With `tie_break = rank` the given rank takes the place of the score.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from recallk_spark.policies import Duplicates, InvalidScores, ScoreOrder, TieBreak
from recallk_spark.protocol import Protocol
from recallk_spark.schema import ITEM, QUERY, RANK, RANKED, RUN, SCORE

REPEATS = "repeats"  # copies of this result within depth, besides its best one; null where nobody asked


def top_k(
    scores: DataFrame,
    *,
    protocol: Protocol,
    partitioned: bool = False,
    every_repeat: bool = False,
    refuse: bool = True,
) -> DataFrame:
    """Each query's results up to `depth`: RANKED columns and `repeats`.

    One row is one result with its 1-based rank; ranks of a list are 1, 2, ... without gaps. A null rank is a result
    that was removed before ranking, kept as evidence that the query is in the run.

    The rows are shuffled once, by query alone, so that what follows (repeats, the join with relevance, the
    per-query table) needs no further exchange of them.

    Args:
        scores: conformed scores.
        protocol: score_order, tie_break, duplicates, invalid_scores and depth are read here.
        partitioned: the rows are partitioned by query already.
        every_repeat: count repeated results of every item, not only what the duplicates policy needs.
        refuse: under `duplicates = error`, whether a repeat stops the job or is only counted.
    """
    order = result_order(protocol)
    placed = (scores if partitioned else scores.repartition(QUERY)).withColumn("ranked", takes_a_rank(protocol))
    if protocol.duplicates is Duplicates.COLLAPSE:
        placed = _collapse(placed, order=order, depth=protocol.depth)
    position = F.row_number().over(_list_window().orderBy(*order))
    kept = placed.withColumn(RANK, position).where(F.col(RANK) <= protocol.depth)
    kept = kept.withColumn(RANK, F.when(F.col("ranked"), F.col(RANK)))
    if protocol.duplicates is Duplicates.ERROR or (every_repeat and protocol.duplicates is Duplicates.OCCUPY):
        kept = _count_copies(kept)
    elif protocol.duplicates is Duplicates.OCCUPY:
        kept = kept.withColumn(REPEATS, F.lit(None).cast("int"))
    if protocol.duplicates is Duplicates.ERROR and refuse:
        kept = kept.withColumn(RANK, _refuse_copies())
    return kept.select(*RANKED.names, REPEATS)


def _list_window() -> WindowSpec:
    return Window.partitionBy(QUERY, RUN)


def order_column(protocol: Protocol) -> str:
    """The column whose value comes first in the order: the score, or the given rank."""
    return RANK if protocol.tie_break is TieBreak.RANK else SCORE


def greatest_first(protocol: Protocol) -> bool:
    """Whether the greatest value of `order_column` is the best one."""
    return protocol.tie_break is not TieBreak.RANK and protocol.score_order is ScoreOrder.DESC


def result_order(protocol: Protocol) -> list[Column]:
    """The total order of the results of a list, best first."""
    value = F.col(order_column(protocol))
    best_first = value.desc_nulls_last() if greatest_first(protocol) else value.asc_nulls_last()
    item = F.col(ITEM)
    return [best_first, item.desc_nulls_last() if protocol.tie_break is TieBreak.ITEM_DESC else item.asc_nulls_last()]


def takes_a_rank(protocol: Protocol) -> Column:
    """False on a row without an item (a list of length 0) and on an invalid score that is to be dropped.

    Both come last in the order, so the ranks above them are what they would be without them.
    """
    if protocol.tie_break is TieBreak.RANK or protocol.invalid_scores is not InvalidScores.DROP:
        return F.col(ITEM).isNotNull()
    return F.col(ITEM).isNotNull() & F.col(SCORE).isNotNull()


def _collapse(placed: DataFrame, *, order: list[Column], depth: int) -> DataFrame:
    """Only the best copy of each result; `repeats` says how many copies within depth went away with it."""
    copies = Window.partitionBy(QUERY, RUN, ITEM)
    every_copy = copies.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    within_depth = F.count_if(F.col("ranked") & (F.col("position") <= depth)).over(every_copy)
    return (
        placed.withColumn("position", F.row_number().over(_list_window().orderBy(*order)))
        .withColumn(REPEATS, F.greatest(within_depth - 1, F.lit(0)).cast("int"))
        .withColumn("copy", F.row_number().over(copies.orderBy("position")))
        .where(F.col("copy") == 1)
    )


def _count_copies(kept: DataFrame) -> DataFrame:
    copy = F.row_number().over(Window.partitionBy(QUERY, RUN, ITEM).orderBy(F.col(RANK).asc_nulls_last()))
    return kept.withColumn(REPEATS, F.when(F.col(RANK).isNotNull() & (copy > 1), 1).otherwise(0))


def _refuse_copies() -> Column:
    key = F.concat(F.lit("run "), F.col(RUN), F.lit(", query "), F.col(QUERY), F.lit(", item "), F.col(ITEM))
    head = "scores.item_id: duplicate result within depth, and duplicates = error; "
    refusal = F.raise_error(
        F.concat(F.lit(head + "repair the table or choose another policy (for example "), key, F.lit(")"))
    )
    return F.when(F.col(REPEATS) > 0, refusal).otherwise(F.col(RANK))
