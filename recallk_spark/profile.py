"""From the grid to the profile: every measure at every depth, with intervals and counts.

Exactness: per |R| the integers are summed, then each is divided once, then the quotients are added by ascending
|R|. The order of every floating-point addition is written down, so the same counts give the same bits everywhere.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from recallk_spark.grid import curve, grid
from recallk_spark.histogram import SLICE, min_grade_text
from recallk_spark.policies import MissingQueries, ShortLists, UnjudgedQueries
from recallk_spark.protocol import Protocol
from recallk_spark.ranking import REPEATS
from recallk_spark.schema import MIN_GRADE, PROFILE, RELEVANCE_SET_ALL, RUN
from recallk_spark.uncertainty import interval, squares, standard_error

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
    """The recall-vs-depth profile: one row per run, min_grade, slice and k = 1..depth.

    PROFILE columns, then RUN_COUNTS.

    Args:
        histogram: counts of the runs.
        population: counts of the judged queries.
        protocol: every setting about queries, min_grade, the cutoffs and depth are read here.
        refuse: whether a count at odds with an `error` policy stops the job.
    """
    measured = _measures(grid(histogram, population, protocol=protocol), protocol)
    if refuse:
        measured = _refuse(measured, protocol)
    return measured.select(*PROFILE.names, *RUN_COUNTS)


def _sums() -> str:
    """Sums over the queries of their hits, recall, capped recall, F1 and average precision at k, by ascending |R|."""
    terms = {
        "hits": "g.h",
        "recall": "g.recall",
        "capped": "if(g.r <= k, g.recall, g.h / k)",
        "f1": "2 * g.h / (k + g.r)",
        "map": "g.map",
    }
    zero = ", ".join(f"0D as {name}" for name in terms)
    step = ", ".join(f"so_far.{name} + {term} as {name}" for name, term in terms.items())
    return f"aggregate(groups, struct({zero}), (so_far, g) -> struct({step}))"


def _measures(at_each_k: DataFrame, protocol: Protocol) -> DataFrame:
    """The measures of each k; division by no query, no relevant item or no depth is null."""
    n = "queries" if protocol.missing_queries is MissingQueries.EXCLUDE else "population"
    sums = at_each_k.selectExpr(*curve(protocol), "k", "groups", "totals", f"{_sums()} as sums").selectExpr(
        "*",
        f"totals.{n} as n",
        f"totals.{n}_relevant as relevant",
        "bigint(sums.hits) as hits",
    )
    means = sums.selectExpr(
        "*", "try_divide(sums.recall, n) as recall_macro", "try_divide(double(hits), relevant) as recall_micro"
    )
    deviations = means.selectExpr("*", f"{squares()} as squares").drop("groups")
    # for who reads the files; and it parts the generated code in two, each short enough for Java to compile
    ordered = deviations.sortWithinPartitions(*curve(protocol), "k")
    errors = ordered.selectExpr(
        *curve(protocol),
        *("k", "n", "relevant", "hits", "recall_macro", "recall_micro", "sums", "totals.*"),
        f"{standard_error('macro', total='n')} as recall_macro_error",
        f"{standard_error('micro', total='relevant')} as recall_micro_error",
    )
    cutoffs = ", ".join(map(str, protocol.cutoffs))
    return errors.selectExpr(
        RUN,
        f"'{RELEVANCE_SET_ALL}' as relevance_set",
        f"{min_grade_text(protocol)} as {MIN_GRADE}",
        *SLICE,
        "k",
        "recall_macro",
        *interval("recall_macro"),
        "recall_micro",
        *interval("recall_micro"),
        "try_divide(sums.capped, n) as recall_capped_macro",
        "try_divide(double(hits), n * k) as precision_macro",
        "try_divide(sums.f1, n) as f1_macro",
        "try_divide(double(first_hits), n) as hit_rate",
        "try_divide(reciprocal, n) as mrr",
        "try_divide(sums.map, n) as map",
        f"if(k in ({cutoffs}), try_divide(coalesce(double(ndcg), 0D), n), null) as ndcg",
        "try_divide(double(hits + others), n * k) as judged_macro",
        "hits",
        "relevant",
        "(queries - lists_shorter) * k + results_of_shorter as retrieved",
        "n as queries",
        "population - queries as queries_missing",
        "queries_no_relevant",
        "queries_unjudged",
        "n - queries + lists_shorter as queries_short",
        "queries_in_run",
        "run_unlisted + labels_unlisted as queries_unlisted",
        f"{REPEATS} as duplicate_results",
        "results",
        "judged_results",
        "repeated_labels as duplicate_labels",
        "conflicting_labels",
        "repeated_queries as duplicate_queries",
    )


def _refuse(measured: DataFrame, protocol: Protocol) -> DataFrame:
    """A refusal in place of a count that the protocol does not allow."""
    everywhere, at_max_cutoff = F.lit(True), F.col("k") == protocol.max_cutoff
    rules = [
        ("missing_queries", protocol.missing_queries is MissingQueries.ERROR, "queries_missing", everywhere),
        ("unjudged_queries", protocol.unjudged_queries is UnjudgedQueries.ERROR, "queries_unjudged", everywhere),
        ("short_lists", protocol.short_lists is ShortLists.ERROR, "queries_short", at_max_cutoff),
    ]
    for setting, active, column, where in rules:
        if active:
            what = F.lit(f": {setting.replace('_', ' ')} (")
            text = F.concat(F.lit("run "), F.col(RUN), what, F.col(column), F.lit(f"), and {setting} = error"))
            # a filter, which no choice of columns leaves out
            measured = measured.where(F.when(where & (F.col(column) > 0), F.raise_error(text)).otherwise(True))
    return measured
