"""From the histogram to the profile: every measure at every depth, with intervals and counts.

Exactness: per |R| the integers are summed, then each is divided once, then the quotients are added by ascending
|R|. The order of every floating-point addition is written down, so the same counts give the same bits everywhere.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from recallk_spark.histogram import (
    GROUP_COUNTS,
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

# what depends on k but not on |R|: counts up to k, of lists shorter than k how many and how long they are in sum
_TOTALS = (
    *("first_hits", "reciprocal", "others", "lists_shorter", "results_of_shorter", "ndcg"),
    *QUERY_COUNTS,
    *POPULATION_COUNTS,
)

_BLOCK = 128  # how many k are one row on the way to the grid

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
    measured = _measures(_grid(_running_totals(counts, protocol), protocol), protocol)
    if refuse:
        measured = _refuse(measured, protocol)
    return measured.select(*PROFILE.names, *RUN_COUNTS)


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
    at_zero = [f"{name} = 0" for name in (*grade, RANK)]
    of_run = " and ".join([f"slice = '{TOTAL}'", f"{NUM_RELEVANT} is null", *at_zero])
    fields = ",".join(f"{name}:{_MEMBER_TYPES[name]}" for name in (*keys, *POPULATION_COUNTS))
    own = f"array(cast(null as struct<{fields}>))"
    both = histogram.join(F.broadcast(everyone), how="cross").selectExpr(
        "*", f"explode(if({of_run}, concat({own}, everyone), {own})) as member"
    )
    return both.selectExpr(
        RUN,
        *(f"if(member is null, {name}, member.{name}) as {name}" for name in keys),
        *(f"if(member is null, {name}, 0) as {name}" for name in (RANK, *GROUP_COUNTS, *RANK_COUNTS, *QUERY_COUNTS)),
        "if(member is null, ndcg, null) as ndcg",
        *(f"coalesce(member.{name}, 0) as {name}" for name in POPULATION_COUNTS),
    )


def _running_totals(histogram: DataFrame, protocol: Protocol) -> DataFrame:
    """One row per curve, |R| and step, the k from first_k to last_k between which no count changes.

    `cell` is what depends on k and |R| together, null where no query counts; `totals`, where |R| is null, what depends
    on k alone.
    """
    group = f"partition by {', '.join(_curve(protocol))}, {NUM_RELEVANT}"
    so_far = f"over ({group} order by {RANK} rows between unbounded preceding and current row)"
    counted = "lists" if protocol.missing_queries is MissingQueries.EXCLUDE else "population"
    running = {
        "h": "hits",
        "s": "hit_numbers",
        "m": f"coalesce(try_divide(hit_numbers, {RANK}), 0D)",
        "n": counted,
        "reciprocal": f"coalesce(try_divide(first_hits, {RANK}), 0D)",
        "lists_shorter": "ends",
        "results_of_shorter": f"ends * ({RANK} - 1)",
        **{name: name for name in ("first_hits", "others", *QUERY_COUNTS, *POPULATION_COUNTS)},
    }
    cell = f"struct(double({NUM_RELEVANT}) as r, double(n) as n, double(h) as h, double(2 * s - h) as squares, m)"
    steps = histogram.selectExpr(
        *_curve(protocol),
        NUM_RELEVANT,
        f"greatest({RANK}, 1) as first_k",
        f"lead({RANK}, 1, {protocol.depth + 1}) over ({group} order by {RANK}) - 1 as last_k",
        "ndcg",
        *(f"sum({count}) {so_far} as {name}" for name, count in running.items()),
    )
    return steps.where("first_k <= last_k").selectExpr(
        *_curve(protocol),
        "first_k",
        "last_k",
        f"if({NUM_RELEVANT} is not null and n > 0, {cell}, null) as cell",
        f"if({NUM_RELEVANT} is null, struct({', '.join(_TOTALS)}), null) as totals",
    )


def _grid(steps: DataFrame, protocol: Protocol) -> DataFrame:
    """One row per curve and k: `groups`, the cells of this k by ascending |R|, and `totals`.

    Steps are laid out side by side for a block of k at a time: rows are few, and none holds more than a block.
    """
    block = f"explode(sequence(int((first_k - 1) div {_BLOCK}), int((last_k - 1) div {_BLOCK}))) as block"
    first, last = f"greatest(first_k, block * {_BLOCK} + 1)", f"least(last_k, (block + 1) * {_BLOCK})"
    cut = steps.selectExpr("*", block).selectExpr(
        *_curve(protocol), "block", f"{first} as first_k", f"{last} - {first} + 1 as width", "cell", "totals"
    )
    laid_out = "flatten(transform(sort_array(collect_list({step})), step -> array_repeat(step.{what}, step.width)))"
    cells = "if(cell is null, null, struct(cell.r, first_k, width, cell))"
    totals = "if(totals is null, null, struct(first_k, width, totals))"
    blocks = cut.groupBy(*_curve(protocol), "block").agg(
        F.expr(f"{laid_out.format(step=cells, what='cell')} as cells"),
        F.expr(f"{laid_out.format(step=totals, what='totals')} as totals"),
    )
    # cells stand by |R|, then k: every size(totals)-th is of the same k
    of_one_k = """transform(
        slice(cells, 1, int(size(cells) div size(totals))),
        (first, group) -> get(cells, group * size(totals) + place)
    )"""
    at_k = f"struct(block * {_BLOCK} + place + 1 as k, {of_one_k} as groups, of_k as totals)"
    rows = blocks.selectExpr(*_curve(protocol), f"transform(totals, (of_k, place) -> {at_k}) as rows")
    return rows.selectExpr(*_curve(protocol), "inline(rows)")


def _sums(protocol: Protocol) -> str:
    """Sums over the queries of their hits, recall, capped recall, F1 and average precision at k, by ascending |R|."""
    bare = "g.n" if protocol.no_relevant is NoRelevant.ONE else "0D"  # what queries with |R| = 0 add to recall
    terms = {
        "hits": "g.h",
        "recall": f"if(g.r > 0, g.h / g.r, {bare})",
        "capped": f"if(g.r > 0, try_divide(g.h, least(g.r, k)), {bare})",
        "f1": "try_divide(2 * g.h, k + g.r)",
        "map": "if(g.r > 0, g.m / g.r, 0D)",
    }
    zero = ", ".join(f"0D as {name}" for name in terms)
    step = ", ".join(f"so_far.{name} + coalesce({term}, 0D) as {name}" for name, term in terms.items())
    return f"aggregate(groups, struct({zero}), (so_far, g) -> struct({step}))"


def _measures(grid: DataFrame, protocol: Protocol) -> DataFrame:
    """The measures of each k; division by no query, no relevant item or no depth is null."""
    n = "queries" if protocol.missing_queries is MissingQueries.EXCLUDE else "population"
    sums = grid.selectExpr(*_curve(protocol), "k", "groups", "totals", f"{_sums(protocol)} as sums").selectExpr(
        "*",
        f"totals.{n} as n",
        f"totals.{n}_relevant as relevant",
        "bigint(sums.hits) as hits",
    )
    means = sums.selectExpr(
        "*", "try_divide(sums.recall, n) as recall_macro", "try_divide(double(hits), relevant) as recall_micro"
    )
    bare = 1 if protocol.no_relevant is NoRelevant.ONE else 0
    deviations = means.selectExpr("*", f"{squares(bare)} as squares").drop("groups")
    # for who reads the files; and it parts the generated code in two, each short enough for Java to compile
    ordered = deviations.sortWithinPartitions(*_curve(protocol), "k")
    errors = ordered.selectExpr(
        *_curve(protocol),
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
