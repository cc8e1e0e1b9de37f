"""From the histogram to the profile: every measure at every depth, with intervals and counts.

Exactness: per |R| the integers are summed, then each is divided once, then the quotients are added by ascending
|R|. The order of every floating-point addition is written down, so the same counts give the same bits everywhere.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from recallk_spark.histogram import (
    NUM_RELEVANT,
    POPULATION_COUNTS,
    QUERY_COUNTS,
    RANK_COUNTS,
    SLICE,
)
from recallk_spark.protocol import MissingQueries, NoRelevant, Protocol, ShortLists, UnjudgedQueries
from recallk_spark.ranking import REPEATS
from recallk_spark.schema import PROFILE, RELEVANCE_SET_ALL, RUN, TOTAL
from recallk_spark.uncertainty import high, low, standard_error

_MEMBER_COUNTS = ",".join(f"{name}:bigint" for name in POPULATION_COUNTS)
_MEMBER = f"struct<slice:string,slice_value:string,{NUM_RELEVANT}:int,{_MEMBER_COUNTS}>"

_AT_RANK = ("first_hits", "judged", "lists", "ndcg", *QUERY_COUNTS, *POPULATION_COUNTS)

# counts of one run beside those of PROFILE, on the rows of the total
RUN_COUNTS = (
    "queries_in_run",
    "queries_unlisted",
    "duplicate_results",
    "results",
    "judged_results",
    "duplicate_labels",
    "conflicting_labels",
    "duplicate_queries",
)


def profile(histogram: DataFrame, population: DataFrame, *, protocol: Protocol, refuse: bool = True) -> DataFrame:
    """The recall-vs-depth profile: one row per run, slice and k = 1..depth; PROFILE columns, then RUN_COUNTS.

    Args:
        histogram: counts of the runs.
        population: counts of the judged queries.
        protocol: every setting about queries, the cutoffs and depth are read here.
        refuse: whether a count at odds with an `error` policy stops the job.
    """
    curves = _curves(_with_population(histogram, population), protocol=protocol)
    sums = _running_totals(_by_depth(curves, protocol))
    measured = _measures(sums, protocol)
    if refuse:
        measured = _refuse(measured, protocol)
    return measured.where("k >= 1").select(*PROFILE.names, *RUN_COUNTS)


def _with_population(histogram: DataFrame, population: DataFrame) -> DataFrame:
    """The histogram of each run, and the whole population at its rank 0, slices without a query in the run included.

    The population does not depend on the run: it is one small row that the row of a run's whole queries takes along.
    """
    everyone = population.agg(F.collect_list(F.struct(*SLICE, NUM_RELEVANT, *POPULATION_COUNTS)).alias("everyone"))
    nobody = F.array(F.lit(None).cast(_MEMBER))
    of_run = (F.col("slice") == TOTAL) & (F.col(NUM_RELEVANT) == 0) & (F.col("rank") == 0)
    takes = F.when(of_run, F.concat(nobody, F.col("everyone"))).otherwise(nobody)
    both = histogram.join(F.broadcast(everyone), how="cross").withColumn("member", F.explode(takes))
    own = F.col("member").isNull()
    keys = [F.when(own, F.col(name)).otherwise(F.col(f"member.{name}")).alias(name) for name in (*SLICE, NUM_RELEVANT)]
    counts = [F.when(own, F.col(name)).otherwise(0).alias(name) for name in ("rank", *RANK_COUNTS, *QUERY_COUNTS)]
    members = [F.coalesce(f"member.{name}", F.lit(0)).alias(name) for name in POPULATION_COUNTS]
    rows = both.select(RUN, *keys, *counts, F.when(own, F.col("ndcg")).alias("ndcg"), *members)
    return rows.repartition(RUN, *SLICE)  # all that follows stays within one run and slice: no further exchange


def _curves(histogram: DataFrame, *, protocol: Protocol) -> DataFrame:
    """One row per run, slice, |R| and k from 0: hits and running numbers so far (h, s), sum of s/r (m), queries (n).

    Counts that belong to one rank (first hits, judged items, list ends, nDCG, whole queries) stand at k = rank only.
    """
    group = Window.partitionBy(RUN, *SLICE, NUM_RELEVANT)
    by_rank = group.orderBy("rank")
    so_far = by_rank.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    whole = group.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    counted = "lists" if protocol.missing_queries is MissingQueries.EXCLUDE else "population"
    share = F.when(F.col("rank") > 0, F.try_divide("hit_numbers", "rank")).otherwise(0.0)
    steps = histogram.select(
        "*",
        F.sum("hits").over(so_far).alias("h"),
        F.sum("hit_numbers").over(so_far).alias("s"),
        F.sum(share).over(so_far).alias("m"),
        F.sum(counted).over(whole).alias("n"),
        F.lead("rank", 1, protocol.depth + 1).over(by_rank).alias("next_rank"),
    )
    last = F.greatest(F.col("rank"), F.col("next_rank") - 1)
    filled = steps.withColumn("k", F.explode(F.sequence("rank", last)))
    at_rank = F.col("k") == F.col("rank")
    here = [F.when(at_rank, F.col(name)).alias(name) for name in _AT_RANK]
    return filled.select(RUN, *SLICE, NUM_RELEVANT, "k", "h", "s", "m", "n", *here)


def _by_depth(curves: DataFrame, protocol: Protocol) -> DataFrame:
    """One row per run, slice and k: sums over |R|, integers as they are, quotients by ascending |R|."""
    group = F.struct(
        F.col(NUM_RELEVANT).cast("double").alias("r"),
        F.col("n").cast("double").alias("n"),
        F.col("h").cast("double").alias("h"),
        (2 * F.col("s") - F.col("h")).cast("double").alias("squares"),
        F.col("m").alias("m"),
    )
    gathered = curves.groupBy(RUN, *SLICE, "k").agg(
        F.sort_array(F.collect_list(F.when(F.col("n") > 0, group))).alias("groups"),
        F.sum("n").alias("n"),
        F.sum(F.col("n") * F.col(NUM_RELEVANT)).alias("relevant"),
        F.sum("h").alias("hits"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _AT_RANK),
    )
    return gathered.withColumn("sums", _sums(protocol))


def _sums(protocol: Protocol) -> Column:
    """Sums over the queries of their recall, capped recall, F1 and average precision at k, by ascending |R|."""
    without = 1.0 if protocol.no_relevant is NoRelevant.ONE else 0.0
    k = F.col("k")

    def add(total: Column, group: Column) -> Column:
        r, n, h = group["r"], group["n"], group["h"]
        recall = F.when(r > 0, h / r).otherwise(n * without)
        capped = F.when(r > 0, F.try_divide(h, F.least(r, k))).otherwise(n * without)
        return F.struct(
            (total["recall"] + recall).alias("recall"),
            (total["capped"] + F.coalesce(capped, F.lit(0.0))).alias("capped"),
            (total["f1"] + F.coalesce(F.try_divide(2 * h, k + r), F.lit(0.0))).alias("f1"),
            (total["map"] + F.when(r > 0, group["m"] / r).otherwise(0.0)).alias("map"),
        )

    zero = F.struct(*(F.lit(0.0).alias(name) for name in ("recall", "capped", "f1", "map")))
    return F.aggregate("groups", zero, add)


def _running_totals(by_depth: DataFrame) -> DataFrame:
    """Counts that stand at one rank become counts up to k; whole-query counts (rank 0) become the same at every k."""
    window = Window.partitionBy(RUN, *SLICE).orderBy("k")
    so_far = window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = window.rowsBetween(Window.unboundedPreceding, -1)

    def total(name: str, over: WindowSpec = so_far) -> Column:
        return F.coalesce(F.sum(name).over(over), F.lit(0))

    reciprocal = F.when(F.col("k") > 0, F.col("first_hits") / F.col("k")).otherwise(0.0)
    summed = by_depth.select(
        RUN,
        *SLICE,
        "k",
        "groups",
        "sums",
        "n",
        "relevant",
        "hits",
        "ndcg",
        total("first_hits").alias("first_hits"),
        F.sum(reciprocal).over(so_far).alias("reciprocal"),
        total("judged").alias("judged"),
        total("lists", before).alias("lists_shorter"),
        *(total(name).alias(name) for name in (*QUERY_COUNTS, *POPULATION_COUNTS)),
    )
    long_enough = F.when(F.col("k") > 0, F.col("queries") - F.col("lists_shorter")).otherwise(0)
    return summed.withColumn("retrieved", F.sum(long_enough).over(so_far))


def _measures(sums: DataFrame, protocol: Protocol) -> DataFrame:
    """The measures from the sums; division by no query, no relevant item or no depth is null."""
    n, k = F.col("n"), F.col("k")
    macro = F.try_divide("sums.recall", n)
    micro = F.try_divide(F.col("hits").cast("double"), F.col("relevant"))
    without = 1.0 if protocol.no_relevant is NoRelevant.ONE else 0.0
    macro_error = standard_error("groups", n=n, mean=macro, total=n, per_relevant=True, without=without)
    micro_error = standard_error("groups", n=n, mean=micro, total=F.col("relevant"), per_relevant=False, without=0.0)
    at_cutoff = k.isin(list(protocol.cutoffs))
    missing = F.col("population") - F.col("queries")
    short = F.col("n") - F.col("queries") + F.col("lists_shorter")
    return sums.select(
        RUN,
        F.lit(RELEVANCE_SET_ALL).alias("relevance_set"),
        F.lit(protocol.min_grade).alias("min_grade"),
        *SLICE,
        "k",
        macro.alias("recall_macro"),
        low(macro, macro_error).alias("recall_macro_low"),
        high(macro, macro_error).alias("recall_macro_high"),
        micro.alias("recall_micro"),
        low(micro, micro_error).alias("recall_micro_low"),
        high(micro, micro_error).alias("recall_micro_high"),
        F.try_divide("sums.capped", n).alias("recall_capped_macro"),
        F.try_divide(F.col("hits").cast("double"), n * k).alias("precision_macro"),
        F.try_divide("sums.f1", n).alias("f1_macro"),
        F.try_divide(F.col("first_hits").cast("double"), n).alias("hit_rate"),
        F.try_divide("reciprocal", n).alias("mrr"),
        F.try_divide("sums.map", n).alias("map"),
        F.when(at_cutoff, F.try_divide(F.col("ndcg").cast("double"), n)).alias("ndcg"),
        F.try_divide(F.col("judged").cast("double"), n * k).alias("judged_macro"),
        "hits",
        "relevant",
        "retrieved",
        n.alias("queries"),
        missing.alias("queries_missing"),
        "queries_no_relevant",
        "queries_unjudged",
        short.alias("queries_short"),
        "queries_in_run",
        (F.col("run_unlisted") + F.col("labels_unlisted")).alias("queries_unlisted"),
        F.col(REPEATS).alias("duplicate_results"),
        "results",
        "judged_results",
        F.col("repeated_labels").alias("duplicate_labels"),
        "conflicting_labels",
        F.col("repeated_queries").alias("duplicate_queries"),
    )


def _refuse(measured: DataFrame, protocol: Protocol) -> DataFrame:
    """A refusal in place of a count that the protocol does not allow."""
    at_max_cutoff = F.col("k") == protocol.max_cutoff
    rules = [
        (
            protocol.missing_queries is MissingQueries.ERROR,
            "queries_missing",
            F.lit(True),
            "missing queries",
            "missing_queries",
        ),
        (
            protocol.unjudged_queries is UnjudgedQueries.ERROR,
            "queries_unjudged",
            F.lit(True),
            "unjudged queries",
            "unjudged_queries",
        ),
        (
            protocol.short_lists is ShortLists.ERROR,
            "queries_short",
            at_max_cutoff,
            "short lists",
            "short_lists",
        ),
    ]
    for active, column, where, what, setting in rules:
        if active:
            text = F.concat(
                F.lit("run "),
                F.col(RUN),
                F.lit(f": {what} ("),
                F.col(column),
                F.lit(f"), and {setting} = error"),
            )
            refused = F.when(where & (F.col(column) > 0), F.raise_error(text)).otherwise(F.col(column))
            measured = measured.withColumn(column, refused)
    return measured
