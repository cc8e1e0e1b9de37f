"""Ranks of judged results by counting, not by sorting: what the pruned plan does in place of ranking and judging.

Only the ranks of judged results matter, and a rank is one more than the number of results above it. So

1. a first scan finds the judged results: the *keys* of each list, few enough to be sent to every executor;
2. a second scan places every result among the keys of its list by binary search, first of their values, then among
   those of its own value of their items, and counts, per list and place, on the side of the scan: neither an unjudged
   result nor a sort of them leaves it.

Why the ranks are those of the window plan. Let t_1, t_2, ... be the distinct keys of a list in the total order of
`ranking.result_order`, t_j occurring m_j times, and let place(x) be the number of keys that are not below x. Then
place(x) < j exactly when x stands above t_j, so t_j has rank 1 + sum of the counts at places 0 .. j - 1, and its
copies have the m_j - 1 ranks after it. Each comparison is Spark's own of two values of one column, as sorting uses it:
nothing is packed, rounded or hashed, whatever the type. As rank(t_j) >= j, keys after the first `depth` cannot be
within depth and are left out, which bounds the search.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from recallk_spark.judging import ITEM_BITS, may_be_judged, refuse_unjudged
from recallk_spark.lists import LISTS, in_rank_order
from recallk_spark.policies import InvalidScores, TieBreak, UnjudgedQueries
from recallk_spark.protocol import Protocol
from recallk_spark.ranking import greatest_first, order_column, result_order, takes_a_rank
from recallk_spark.schema import GRADE, ITEM, QUERY, RANK, RUN

CHANGED = "scores: changed while they were read twice; run it again when nothing writes to them"

_NOT_RANKED = -1  # the place of a row that says only that its query is in the run


def count_lists(
    ahead: DataFrame,
    scores: DataFrame,
    labels: DataFrame,
    *,
    protocol: Protocol,
    every_query_judged: bool = False,
    one_run: str | None = None,
    refuse: bool = True,
) -> DataFrame:
    """The lists of the runs: LISTS columns, to the bit those of `gather_lists(judge(top_k(scores), labels))`.

    Both scans must meet the same results of judged items, or the job stops.

    Args:
        ahead: scores for the first scan, conformed but for their faults.
        scores: conformed scores, for the second scan.
        labels: LABELS. Their items are sent to every executor, and so are the results that meet them.
        protocol: `duplicates = occupy`; the settings about order, invalid scores, depth and unjudged queries are read.
        every_query_judged: a list of queries was given, so no query of the run counts as unjudged.
        one_run: the run_id of every row where it is known to be a single one, which then need not be compared.
        refuse: under `unjudged_queries = error`, whether such a query stops the job.
    """
    lists_by = (QUERY,) if one_run else (QUERY, RUN)
    keys = _keys(ahead, labels, protocol, lists_by)
    counts = _count_by_place(scores, keys, protocol, lists_by)
    # side by side rather than joined: a join on `place` would have Spark write out the whole search in its search for
    # partition filters
    both = counts.unionByName(keys.withColumn("results", F.lit(0)), allowMissingColumns=True)
    of_list = Window.partitionBy(*lists_by).orderBy("place")
    ranked = both.select(
        *lists_by,
        ITEM,
        GRADE,
        "copies",
        "results",
        F.sum("results").over(of_list.rangeBetween(Window.unboundedPreceding, -1)).alias("above"),
        F.sum("results").over(of_list.rangeBetween(Window.currentRow, Window.currentRow)).alias("here"),
    )
    rank = f"if(here < copies, raise_error('{CHANGED}'), int(coalesce(above, 0) + 1))"
    ranked = ranked.selectExpr(*lists_by, ITEM, GRADE, "copies", "results", f"if(copies > 0, {rank}, null) as {RANK}")
    depth = protocol.depth
    judged = f"if({RANK} <= {depth}, struct({ITEM}, {RANK}, {GRADE}), null)"
    gathered = ranked.groupBy(*lists_by).agg(
        F.expr(f"int(least(sum(results), {depth})) as num_retrieved"),
        F.expr(f"sort_array(collect_list({judged})) as by_item"),
        F.expr(f"coalesce(sum(if({RANK} <= {depth}, least(copies, {depth} + 1 - {RANK}), 0)), 0) as judged_results"),
    )
    if one_run:
        gathered = gathered.withColumn(RUN, F.lit(one_run))
    lists = in_rank_order(gathered, repeats="judged_results - size(by_rank)")
    if protocol.unjudged_queries is UnjudgedQueries.ERROR and refuse and not every_query_judged:
        lists = refuse_unjudged(lists.join(labels.select(QUERY, "items"), on=QUERY, how="left"), "num_retrieved")
    return lists.select(*LISTS)


def _keys(scores: DataFrame, labels: DataFrame, protocol: Protocol, lists_by: tuple[str, ...]) -> DataFrame:
    """The first scan: one row per list and distinct key, with its place from 1, copies, item, value and grade."""
    value = order_column(protocol)
    found = (
        scores.join(F.broadcast(labels.select(QUERY, "items", "grades", ITEM_BITS)), on=QUERY, how="inner")
        .where(_ranked(protocol) & F.col(RUN).isNotNull() & may_be_judged() & F.expr(f"array_contains(items, {ITEM})"))
        .selectExpr(*lists_by, ITEM, value, f"get(grades, int(array_position(items, {ITEM})) - 1) as {GRADE}")
    )
    distinct = (
        found.repartition(QUERY)
        .groupBy(*lists_by, ITEM, value)
        .agg(F.count(F.lit(1)).alias("copies"), F.max(GRADE).alias(GRADE))
    )
    place = F.row_number().over(Window.partitionBy(*lists_by).orderBy(*result_order(protocol)))
    return distinct.withColumn("place", place).where(F.col("place") <= protocol.depth)


def _count_by_place(scores: DataFrame, keys: DataFrame, protocol: Protocol, lists_by: tuple[str, ...]) -> DataFrame:
    """The second scan: one row per list and place, with the number of results there."""
    value = order_column(protocol)
    best_value_first = result_order(protocol)[0]
    same_value = (
        Window.partitionBy(*lists_by).orderBy(best_value_first).rangeBetween(Window.currentRow, Window.currentRow)
    )
    ties = F.count(F.lit(1)).over(same_value).cast("int").alias("ties")
    # every column of a key goes in, so that Spark finds the first scan alike here and beside the counts: it runs once
    key = F.struct("place", value, ITEM, GRADE, "copies", "ties")
    arrays = keys.select("*", ties).groupBy(*lists_by).agg(F.sort_array(F.collect_list(key)).alias("keys"))
    arrays = arrays.selectExpr(
        *lists_by,
        "size(keys) as n",
        f"element_at(keys, -1).{value} as last_value",
        f"keys.{value} as key_values",
        f"keys.{ITEM} as key_items",
        "keys.ties as key_ties",
    )
    met = scores.join(F.broadcast(arrays), on=[*lists_by], how="left")
    place = F.when(_ranked(protocol), F.expr("if(values is null, n, if(tied is null, place, place + tied_place))"))
    placed = _search(met, protocol).withColumn("place", place.otherwise(_NOT_RANKED))
    counts = placed.groupBy(*lists_by, "place").agg(F.count(F.lit(1)).alias("rows"))
    return counts.selectExpr(*lists_by, "place", f"if(place = {_NOT_RANKED}, 0, rows) as results")


def _search(met: DataFrame, protocol: Protocol) -> DataFrame:
    """`values`, `place`, `tied` and `tied_place` of each row: two binary searches, of values and of the items of ties.

    Most results stand below every key of their list: one comparison places them, and `values` is null. The arrays of
    a list are far apart in memory, so each is named in one expression only, which Spark then evaluates where it is
    needed: `key_items` where the value is that of a key. Bits take the place of additions: at each step `place` is a
    multiple of twice the step, and no operation that may overflow is generated for every row.
    """
    value = order_column(protocol)
    same = "<=>" if protocol.invalid_scores is InvalidScores.LAST else "="
    before = ">=" if protocol.tie_break is TieBreak.ITEM_DESC else "<="
    steps = [2**bit for bit in reversed(range(protocol.depth.bit_length()))]
    rows = met.withColumns(
        {
            "n": F.expr("coalesce(n, 0)"),
            "values": F.expr(f"if({_above('last_value', protocol)}, null, key_values)"),
            "place": F.lit(0),
            "tied_place": F.lit(0),
        }
    )
    for step in steps:
        further = _above(f"get(values, place | {step - 1})", protocol)
        rows = rows.withColumn("place", F.expr(f"if({further}, place | {step}, place)"))
    ties = "slice(key_items, place + 1, get(key_ties, place))"
    rows = rows.withColumn("tied", F.expr(f"if(get(values, place) {same} {value}, {ties}, null)"))
    for step in steps:
        further = f"get(tied, tied_place | {step - 1}) {before} {ITEM}"
        rows = rows.withColumn("tied_place", F.expr(f"if({further}, tied_place | {step}, tied_place)"))
    return rows


def _ranked(protocol: Protocol) -> Column:
    """Whether a row takes a rank; a value that is refused does not, whoever refuses it."""
    if protocol.tie_break is not TieBreak.RANK and protocol.invalid_scores is InvalidScores.LAST:
        return takes_a_rank(protocol)
    return takes_a_rank(protocol) & F.col(order_column(protocol)).isNotNull()


def _above(key: str, protocol: Protocol) -> str:
    """SQL: whether a key's value is better than this row's; not where there is no such key."""
    value = order_column(protocol)
    above = f"{key} {'>' if greatest_first(protocol) else '<'} {value}"
    if protocol.invalid_scores is InvalidScores.LAST:  # null is below every value
        return f"coalesce({above}, {value} is null and {key} is not null)"
    return above
