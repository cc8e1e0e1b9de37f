"""From the histogram to a grid: at each k, what depends on k and |R| together by ascending |R|, and what does not."""

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
)
from recallk_spark.policies import MissingQueries, NoRelevant
from recallk_spark.protocol import Protocol
from recallk_spark.schema import RANK, RUN, TOTAL

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

BLOCK = 128  # how many k are one row on the way to the grid


def grid(histogram: DataFrame, population: DataFrame, *, protocol: Protocol) -> DataFrame:
    """One row per curve and k = 1..depth: `groups`, the cells of this k by ascending |R|, and `totals`.

    A cell is about the n queries with r = |R|, in doubles: h their hits up to k in sum, recall and map what they add to
    the sums of recall and of average precision, own_macro and own_micro their mean recall and mean number of hits,
    within_macro and within_micro the squared deviations of their recall and of their hits from these, in sum. The
    `ndcg` of the totals is that of the last cutoff up to k.

    Args:
        histogram: counts of the runs.
        population: counts of the judged queries.
        protocol: missing_queries, no_relevant, min_grade and depth are read here.
    """
    counts = _with_population(histogram, population, protocol)
    return _side_by_side(_running_totals(counts, protocol), protocol)


def curve(protocol: Protocol) -> tuple[str, ...]:
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
    group = f"partition by {', '.join(curve(protocol))}, {NUM_RELEVANT}"
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
    steps = histogram.selectExpr(
        *curve(protocol),
        NUM_RELEVANT,
        f"greatest({RANK}, 1) as first_k",
        f"lead({RANK}, 1, {protocol.depth + 1}) over ({group} order by {RANK}) - 1 as last_k",
        "ndcg",
        *(f"sum({count}) {so_far} as {name}" for name, count in running.items()),
    )
    numbers = steps.where("first_k <= last_k").selectExpr(
        "*", f"double({NUM_RELEVANT}) as r", "double(n) as queries_of_r", "double(h) as hits_of_r"
    )
    # no two large numbers are subtracted: sum (h - H/n)^2 = sum h^2 - H^2/n, exactly zero for equal h
    within = "greatest(double(2 * s - h) - try_divide(hits_of_r * hits_of_r, queries_of_r), 0D) as within"
    bare = "1D" if protocol.no_relevant is NoRelevant.ONE else "0D"  # the recall of a query with |R| = 0
    # what does not depend on k is computed here, once a step, and not at each k
    cell = f"""struct(
        r,
        queries_of_r as n,
        hits_of_r as h,
        if(r > 0, hits_of_r / r, queries_of_r * {bare}) as recall,
        if(r > 0, m / r, 0D) as map,
        if(r > 0, hits_of_r / (queries_of_r * r), {bare}) as own_macro,
        hits_of_r / queries_of_r as own_micro,
        if(r > 0, within / (r * r), 0D) as within_macro,
        within as within_micro
    )"""
    return numbers.selectExpr("*", within).selectExpr(
        *curve(protocol),
        "first_k",
        "last_k",
        f"if({NUM_RELEVANT} is not null and n > 0, {cell}, null) as cell",
        f"if({NUM_RELEVANT} is null, struct({', '.join(_TOTALS)}), null) as totals",
    )


def _side_by_side(steps: DataFrame, protocol: Protocol) -> DataFrame:
    """One row per curve and k: `groups`, the cells of this k by ascending |R|, and `totals`.

    Steps are laid out side by side for a block of k at a time: rows are few, and none holds more than a block.
    """
    block = f"explode(sequence(int((first_k - 1) div {BLOCK}), int((last_k - 1) div {BLOCK}))) as block"
    first, last = f"greatest(first_k, block * {BLOCK} + 1)", f"least(last_k, (block + 1) * {BLOCK})"
    cut = steps.selectExpr("*", block).selectExpr(
        *curve(protocol), "block", f"{first} as first_k", f"{last} - {first} + 1 as width", "cell", "totals"
    )
    laid_out = "flatten(transform(sort_array(collect_list({step})), step -> array_repeat(step.{what}, step.width)))"
    cells = "if(cell is null, null, struct(cell.r, first_k, width, cell))"
    totals = "if(totals is null, null, struct(first_k, width, totals))"
    blocks = cut.groupBy(*curve(protocol), "block").agg(
        F.expr(f"{laid_out.format(step=cells, what='cell')} as cells"),
        F.expr(f"{laid_out.format(step=totals, what='totals')} as totals"),
    )
    # cells stand by |R|, then k: every size(totals)-th is of the same k
    of_one_k = """transform(
        slice(cells, 1, int(size(cells) div size(totals))),
        (first, group) -> get(cells, group * size(totals) + place)
    )"""
    at_k = f"struct(block * {BLOCK} + place + 1 as k, {of_one_k} as groups, of_k as totals)"
    rows = blocks.selectExpr(*curve(protocol), f"transform(totals, (of_k, place) -> {at_k}) as rows")
    return rows.selectExpr(*curve(protocol), "inline(rows)")
