"""From the histogram to the profile: every measure at every depth, with intervals and counts.

Exactness: per |R| the integers are summed, then each is divided once, then the quotients are added by ascending
|R|. The order of every floating-point addition is written down, so the same counts give the same bits everywhere.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from recallk_spark.histogram import (
    NUM_RELEVANT,
    PLACE,
    POPULATION_COUNTS,
    QUERY_COUNTS,
    RANK_COUNTS,
    SLICE,
    grade_key,
    min_grade_text,
)
from recallk_spark.policies import MissingQueries, NoRelevant, ShortLists, UnjudgedQueries
from recallk_spark.protocol import Protocol
from recallk_spark.ranking import REPEATS
from recallk_spark.schema import MIN_GRADE, PROFILE, RANK, RELEVANCE_SET_ALL, RUN, TOTAL
from recallk_spark.uncertainty import interval, squares, standard_error

_MEMBER_TYPES = {
    PLACE: "int",
    **dict.fromkeys(SLICE, "string"),
    NUM_RELEVANT: "int",
    **dict.fromkeys(POPULATION_COUNTS, "bigint"),
}

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
    """The recall-vs-depth profile: one row per run, min_grade, slice and k = 1..depth.

    PROFILE columns, then RUN_COUNTS.

    Args:
        histogram: counts of the runs.
        population: counts of the judged queries.
        protocol: every setting about queries, min_grade, the cutoffs and depth are read here.
        refuse: whether a count at odds with an `error` policy stops the job.
    """
    counts = _with_population(histogram, population, protocol)
    sums = _running_totals(_grid(counts, protocol), protocol)
    measured = _measures(sums, protocol)
    if refuse:
        measured = _refuse(measured, protocol)
    return measured.where("k >= 1").select(*PROFILE.names, *RUN_COUNTS)


def _curve(protocol: Protocol) -> tuple[str, ...]:
    """The columns that tell one curve over k from another."""
    return (RUN, *grade_key(protocol), *SLICE)


def _with_population(histogram: DataFrame, population: DataFrame, protocol: Protocol) -> DataFrame:
    """The histogram of each run, and the whole population at its rank 0, slices without a query in the run included.

    The population does not depend on the run: it is one small row that the row of a run's whole queries takes along.
    """
    grade = grade_key(protocol)
    keys = (*grade, *SLICE, NUM_RELEVANT)
    everyone = population.agg(F.collect_list(F.struct(*keys, *POPULATION_COUNTS)).alias("everyone"))
    of_run = " and ".join([f"slice = '{TOTAL}'", *(f"{name} = 0" for name in (*grade, NUM_RELEVANT, RANK))])
    fields = ",".join(f"{name}:{_MEMBER_TYPES[name]}" for name in (*keys, *POPULATION_COUNTS))
    own = f"array(cast(null as struct<{fields}>))"
    both = histogram.join(F.broadcast(everyone), how="cross").selectExpr(
        "*", f"explode(if({of_run}, concat({own}, everyone), {own})) as member"
    )
    rows = both.selectExpr(
        RUN,
        *(f"if(member is null, {name}, member.{name}) as {name}" for name in keys),
        *(f"if(member is null, {name}, 0) as {name}" for name in (RANK, *RANK_COUNTS, *QUERY_COUNTS)),
        "if(member is null, ndcg, null) as ndcg",
        *(f"coalesce(member.{name}, 0) as {name}" for name in POPULATION_COUNTS),
    )
    return rows.repartition(*_curve(protocol))  # all that follows stays within one curve: no further exchange


def _grid(histogram: DataFrame, protocol: Protocol) -> DataFrame:
    """One row per curve and k from 0: what depends on k and |R| together, summed over |R|, and the means of recall.

    Integers are summed as they are, quotients by ascending |R|. Counts that belong to one rank (first hits, judged
    items, list ends, nDCG, whole queries) stand at k = rank only. There is a row for every k and |R|, so rows are lean:
    these counts are one null in nearly all.
    """
    group = f"partition by {', '.join(_curve(protocol))}, {NUM_RELEVANT}"
    so_far = f"over ({group} order by rank rows between unbounded preceding and current row)"
    counted = "lists" if protocol.missing_queries is MissingQueries.EXCLUDE else "population"
    steps = histogram.selectExpr(
        *_curve(protocol),
        RANK,
        NUM_RELEVANT,
        f"sum(hits) {so_far} as h",
        f"sum(hit_numbers) {so_far} as s",
        f"sum(coalesce(try_divide(hit_numbers, rank), 0D)) {so_far} as m",
        f"sum({counted}) over ({group} rows between unbounded preceding and unbounded following) as n",
        f"lead(rank, 1, {protocol.depth + 1}) over ({group} order by rank) as next_rank",
        f"struct({', '.join(_AT_RANK)}) as at_rank",
    )
    cell = f"struct(double({NUM_RELEVANT}) as r, double(n) as n, double(h) as h, double(2 * s - h) as squares, m)"
    cells = steps.selectExpr(
        *_curve(protocol),
        "explode(sequence(rank, greatest(rank, next_rank - 1))) as k",
        f"if(n > 0, {cell}, null) as cell",
        "n",
        f"n * {NUM_RELEVANT} as relevant",
        "h",
        "if(k = rank, at_rank, null) as at_rank",
    )
    sums = {
        "groups": "sort_array(collect_list(cell))",
        "n": "sum(n)",
        "relevant": "sum(relevant)",
        "hits": "sum(h)",
        **{name: f"coalesce(sum(at_rank.{name}), 0)" for name in _AT_RANK},
    }
    gathered = cells.groupBy(*_curve(protocol), "k").agg(*(F.expr(f"{text} as {name}") for name, text in sums.items()))
    means = gathered.selectExpr("*", f"{_sums(protocol)} as sums").selectExpr(
        "*", "try_divide(sums.recall, n) as recall_macro", "try_divide(double(hits), relevant) as recall_micro"
    )
    bare = 1 if protocol.no_relevant is NoRelevant.ONE else 0
    return means.selectExpr("*", f"{squares(bare)} as squares").drop("groups")


def _sums(protocol: Protocol) -> str:
    """Sums over the queries of their recall, capped recall, F1 and average precision at k, by ascending |R|."""
    bare = "g.n" if protocol.no_relevant is NoRelevant.ONE else "0D"  # what queries with |R| = 0 add to recall
    terms = {
        "recall": f"if(g.r > 0, g.h / g.r, {bare})",
        "capped": f"if(g.r > 0, try_divide(g.h, least(g.r, k)), {bare})",
        "f1": "try_divide(2 * g.h, k + g.r)",
        "map": "if(g.r > 0, g.m / g.r, 0D)",
    }
    zero = ", ".join(f"0D as {name}" for name in terms)
    step = ", ".join(f"so_far.{name} + coalesce({term}, 0D) as {name}" for name, term in terms.items())
    return f"aggregate(groups, struct({zero}), (so_far, g) -> struct({step}))"


def _running_totals(grid: DataFrame, protocol: Protocol) -> DataFrame:
    """Counts that stand at one rank become counts up to k; whole-query counts (rank 0) become the same at every k."""
    window = f"partition by {', '.join(_curve(protocol))} order by k rows between unbounded preceding and"
    so_far, before = f"over ({window} current row)", f"over ({window} 1 preceding)"
    summed = grid.selectExpr(
        *(*_curve(protocol), "k"),
        *("n", "relevant", "hits", "sums", "recall_macro", "recall_micro", "squares", "ndcg"),
        f"sum(coalesce(try_divide(first_hits, k), 0D)) {so_far} as reciprocal",
        f"coalesce(sum(lists) {before}, 0) as lists_shorter",
        *(f"sum({name}) {so_far} as {name}" for name in ("first_hits", "judged", *QUERY_COUNTS, *POPULATION_COUNTS)),
    )
    return summed.selectExpr("*", f"sum(if(k > 0, queries - lists_shorter, 0)) {so_far} as retrieved")


def _measures(sums: DataFrame, protocol: Protocol) -> DataFrame:
    """The measures from the sums; division by no query, no relevant item or no depth is null."""
    errors = sums.selectExpr(
        "*",
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
        f"if(k in ({cutoffs}), try_divide(double(ndcg), n), null) as ndcg",
        "try_divide(double(judged), n * k) as judged_macro",
        "hits",
        "relevant",
        "retrieved",
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
