"""From lists to an integer histogram over (|R|, rank): one aggregation for all depths and both averages.

Only the ranks of hits matter. A hit at rank r with running number h in a query with |R| relevant items adds 1 to
the hits at every depth >= r, 1/|R| to macro recall, h/r/|R| to MAP and (2h - 1)/|R|^2 to the sum of squares behind
the interval. So it is enough to count, per (|R|, rank), the hits and the sum of their running numbers.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from recallk_spark.lists import is_counted
from recallk_spark.protocol import Gain, Protocol
from recallk_spark.ranking import REPEATS
from recallk_spark.schema import QUERY, RUN, TOTAL

NUM_RELEVANT = "num_relevant"
SLICE = ("slice", "slice_value")
NDCG_TYPE = "decimal(38,15)"

# one row is one run, slice, |R| and rank; counts over the counted queries of the run with that |R|:
#   hits, first_hits (those with running number 1), hit_numbers (sum of running numbers), judged (judged items),
#   lists (lists that end here; lists of length 0 end at rank 0), ndcg (sum of nDCG at this cutoff).
# The one row with |R| = 0 and rank 0 holds, besides, the counts over whole queries of the run:
#   queries (counted), queries_in_run (evaluated), queries_unjudged, run_unlisted (not on the list of queries),
#   repeats, results (rows of their lists), judged_results
RANK_COUNTS = ("hits", "first_hits", "hit_numbers", "judged", "lists")
QUERY_COUNTS = (
    "queries",
    "queries_in_run",
    "queries_unjudged",
    "run_unlisted",
    REPEATS,
    "results",
    "judged_results",
)

# one row is one slice and |R|, whatever the run: judged queries that count if they are in the run or missing
# queries count (population), judged queries without relevant items, labelled queries that are not listed, repeats
# among labels and listed queries
POPULATION_COUNTS = (
    "population",
    "queries_no_relevant",
    "labels_unlisted",
    "repeated_labels",
    "conflicting_labels",
    "repeated_queries",
)


def histogram(lists: DataFrame, topics: DataFrame, *, protocol: Protocol, queries_given: bool) -> DataFrame:
    """The counts behind every measure: run_id, slice, slice_value, num_relevant, rank, RANK_COUNTS, ndcg, QUERY_COUNTS.

    Args:
        lists: LISTS.
        topics: TOPICS.
        protocol: min_grade, no_relevant, gain and cutoffs are read here.
        queries_given: whether a list of queries decides which queries exist.
    """
    known = lists.join(topics.drop("repeated_labels", "conflicting_labels"), on=QUERY, how="left")
    evaluated = F.coalesce("listed", F.lit(False))
    rows = known.select(
        RUN,
        _slices().alias("slice"),
        F.coalesce(NUM_RELEVANT, F.lit(0)).alias(NUM_RELEVANT),
        evaluated.alias("evaluated"),
        (evaluated & is_counted(protocol)).alias("counted"),
        (~evaluated & F.lit(queries_given)).alias("unlisted"),
        F.col("listed").isNull().alias("unknown"),
        "num_retrieved",
        F.arrays_zip("ranks", "grades").alias("results"),
        F.coalesce("ideal_grades", F.array().cast("array<double>")).alias("ideal_grades"),
        REPEATS,
    )
    entries = rows.select(RUN, NUM_RELEVANT, F.explode("slice").alias("slice"), _entries(protocol).alias("entries"))
    flat = entries.select(RUN, "slice", NUM_RELEVANT, F.explode("entries").alias("entry"))
    return flat.groupBy(
        RUN,
        F.col("slice.slice").alias("slice"),
        F.col("slice.slice_value").alias("slice_value"),
        F.col("entry.num_relevant").alias(NUM_RELEVANT),
        F.col("entry.rank").alias("rank"),
    ).agg(
        F.count("entry.hit_number").alias("hits"),
        F.count_if(F.col("entry.hit_number") == 1).alias("first_hits"),
        F.coalesce(F.sum("entry.hit_number"), F.lit(0)).alias("hit_numbers"),
        F.coalesce(F.sum("entry.judged"), F.lit(0)).alias("judged"),
        F.coalesce(F.sum("entry.lists"), F.lit(0)).alias("lists"),
        F.sum("entry.ndcg").cast(NDCG_TYPE).alias("ndcg"),
        *(F.coalesce(F.sum(f"entry.query.{name}"), F.lit(0)).alias(name) for name in QUERY_COUNTS),
    )


def population(topics: DataFrame, *, protocol: Protocol) -> DataFrame:
    """How many judged queries there are, whatever the runs: slice, slice_value, num_relevant, POPULATION_COUNTS.

    Args:
        topics: TOPICS.
        protocol: no_relevant is read here.
    """
    listed = F.col("listed")
    exploded = topics.select(
        F.explode(_slices()).alias("slice"),
        F.when(listed, F.col(NUM_RELEVANT)).otherwise(0).alias(NUM_RELEVANT),
        (listed & is_counted(protocol)).cast("bigint").alias("population"),
        (listed & (F.col(NUM_RELEVANT) == 0)).cast("bigint").alias("queries_no_relevant"),
        (~listed).cast("bigint").alias("labels_unlisted"),
        F.when(listed, F.col("repeated_labels")).otherwise(0).alias("repeated_labels"),
        F.when(listed, F.col("conflicting_labels")).otherwise(0).alias("conflicting_labels"),
        F.greatest(F.col("copies") - 1, F.lit(0)).alias("repeated_queries"),
    )
    return exploded.groupBy("slice.slice", "slice.slice_value", NUM_RELEVANT).agg(
        *(F.sum(name).alias(name) for name in POPULATION_COUNTS)
    )


def _slices() -> Column:
    """The slices of a query, the total ('', '') first, as an array of (slice, slice_value)."""
    total = F.struct(F.lit(TOTAL).alias("slice"), F.lit(TOTAL).alias("slice_value"))
    entries = F.coalesce(F.map_entries("slices"), F.array().cast("array<struct<key:string,value:string>>"))
    own = F.transform(entries, lambda entry: F.struct(entry["key"].alias("slice"), entry["value"].alias("slice_value")))
    return F.concat(F.array(total), own)


def _entry(
    rank: Column,
    *,
    hit_number: Column | None = None,
    judged: bool = False,
    lists: bool = False,
    ndcg: Column | None = None,
    query: Column | None = None,
) -> Column:
    nothing = F.lit(None)
    query_type = f"struct<{','.join(f'{name}:bigint' for name in QUERY_COUNTS)}>"
    return F.struct(
        (F.col(NUM_RELEVANT) if query is None else F.lit(0)).alias(NUM_RELEVANT),
        rank.cast("int").alias("rank"),
        (nothing if hit_number is None else hit_number).cast("bigint").alias("hit_number"),
        F.lit(int(judged)).alias("judged"),
        F.lit(int(lists)).alias("lists"),
        (nothing if ndcg is None else ndcg).cast(NDCG_TYPE).alias("ndcg"),
        (nothing if query is None else query).cast(query_type).alias("query"),
    )


def _entries(protocol: Protocol) -> Column:
    """What one list adds to the histogram: itself as a query and, when counted, its results, its end and its nDCG."""
    hits = F.filter("results", lambda result: result["grades"] >= protocol.min_grade)
    others = F.filter("results", lambda result: result["grades"] < protocol.min_grade)
    cutoffs = F.lit(list(protocol.cutoffs)).cast("array<int>")
    counted = F.concat(
        F.transform(hits, lambda hit, place: _entry(hit["ranks"], hit_number=place + 1, judged=True)),
        F.transform(others, lambda other: _entry(other["ranks"], judged=True)),
        F.array(_entry(F.col("num_retrieved"), lists=True)),
        F.transform(cutoffs, lambda k: _entry(k, ndcg=_ndcg(k, protocol))),
    )
    own = F.array(_entry(F.lit(0), query=_query_counts()))
    return F.when(F.col("counted"), F.concat(own, counted)).otherwise(own)


def _query_counts() -> Column:
    listed_or_unjudged = ~F.col("unlisted")
    counts = {
        "queries": F.col("counted"),
        "queries_in_run": F.col("evaluated"),
        "queries_unjudged": F.col("unknown") & listed_or_unjudged,
        "run_unlisted": F.col("unknown") & F.col("unlisted"),
        REPEATS: F.when(listed_or_unjudged, F.col(REPEATS)).otherwise(0),
        "results": F.col("num_retrieved"),
        "judged_results": F.size("results"),
    }
    return F.struct(*(counts[name].cast("bigint").alias(name) for name in QUERY_COUNTS))


def _ndcg(k: Column, protocol: Protocol) -> Column:
    """nDCG@k of one list: DCG of its judged results over DCG of all positive grades, best first; 0 where that is 0.

    Discount log2(rank + 1); gain g or 2^g - 1. Jarvelin and Kekalainen (2002), as trec_eval's ndcg_cut takes it.
    Every positive grade gains, whatever min_grade.
    """

    def gain(grade: Column) -> Column:
        worth = grade if protocol.gain is Gain.LINEAR else F.pow(F.lit(2.0), grade) - 1
        return F.when(grade > 0, worth).otherwise(0.0)

    def add(terms: Column) -> Column:
        return F.aggregate(terms, F.lit(0.0), lambda sum_so_far, term: sum_so_far + term)

    within = F.filter("results", lambda result: result["ranks"] <= k)
    dcg = add(F.transform(within, lambda result: gain(result["grades"]) / F.log2(result["ranks"] + F.lit(1.0))))
    best = F.slice("ideal_grades", F.lit(1), k)
    ideal = add(F.transform(best, lambda grade, place: gain(grade) / F.log2(place + F.lit(2.0))))
    return F.coalesce(F.try_divide(dcg, ideal), F.lit(0.0))
