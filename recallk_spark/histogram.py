"""From lists to an integer histogram over (|R|, rank): one aggregation for all depths and both averages.

Only the ranks of hits matter. A hit at rank r with running number h in a query with |R| relevant items adds 1 to
the hits at every depth >= r, 1/|R| to macro recall, h/r/|R| to MAP and (2h - 1)/|R|^2 to the sum of squares behind
the interval. So it is enough to count, per (|R|, rank), the hits and the sum of their running numbers.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from recallk_spark.judging import NUM_RELEVANT_EACH
from recallk_spark.lists import counted_text
from recallk_spark.ndcg import NDCG_TYPE, dcg, ideal_dcg, ndcg
from recallk_spark.protocol import Protocol
from recallk_spark.ranking import REPEATS
from recallk_spark.schema import QUERY, RANK, RUN, TOTAL

NUM_RELEVANT = "num_relevant"
SLICE = ("slice", "slice_value")
PLACE = "min_grade_place"  # of a min_grade among those of the protocol, from 0

# one row is one run, min_grade, slice, |R| and rank; counts over the counted queries of the run with that |R|:
#   hits, hit_numbers (sum of their running numbers), and at rank 0 lists.
# The rows whose |R| is null hold what does not depend on it; counts over all counted queries of the run:
#   first_hits (hits with running number 1), others (judged items that are no hits), ends (lists whose last result is
#   one rank above), ndcg (sum of nDCG at this cutoff);
# and at rank 0, over whole queries of the run:
#   queries (counted), queries_relevant (their |R| in sum), queries_in_run (evaluated), queries_unjudged, run_unlisted
#   (not on the list of queries), repeats, results (rows of their lists), judged_results
GROUP_COUNTS = ("hits", "hit_numbers", "lists")
RANK_COUNTS = ("first_hits", "others", "ends")
QUERY_COUNTS = (
    "queries",
    "queries_relevant",
    "queries_in_run",
    "queries_unjudged",
    "run_unlisted",
    REPEATS,
    "results",
    "judged_results",
)

# one row is one min_grade, slice and |R|, whatever the run: judged queries that count if they are in the run or missing
# queries count (population); and one row whose |R| is null, over all |R|: the same, their |R| in sum, judged queries
# without relevant items, labelled queries that are not listed, repeats among labels and listed queries
POPULATION_COUNTS = (
    "population",
    "population_relevant",
    "queries_no_relevant",
    "labels_unlisted",
    "repeated_labels",
    "conflicting_labels",
    "repeated_queries",
)


def grade_key(protocol: Protocol) -> tuple[str, ...]:
    """The column that tells the min_grades apart, where there are several.

    Rows grouped by a double or by a constant are aggregated once more than they need be; so a place stands for a
    min_grade, and nothing for the only one.
    """
    return (PLACE,) if len(protocol.min_grades) > 1 else ()


def min_grade_text(protocol: Protocol) -> str:
    """The min_grade of a row: SQL over grade_key()."""
    grades = [f"{grade!r}D" for grade in protocol.min_grades]
    return grades[0] if len(grades) == 1 else f"get(array({', '.join(grades)}), {PLACE})"


def histogram(lists: DataFrame, topics: DataFrame, *, protocol: Protocol, queries_given: bool) -> DataFrame:
    """The counts behind every measure.

    Columns: run_id, grade_key(), SLICE, num_relevant, rank, GROUP_COUNTS, RANK_COUNTS, ndcg, QUERY_COUNTS.

    Args:
        lists: LISTS.
        topics: TOPICS.
        protocol: min_grade, no_relevant, gain and cutoffs are read here.
        queries_given: whether a list of queries decides which queries exist.
    """
    needed = topics.selectExpr(
        QUERY, "listed", NUM_RELEVANT, NUM_RELEVANT_EACH, f"{ideal_dcg(protocol)} as ideal_dcg", "slices"
    )
    known = lists.join(needed, on=QUERY, how="left").selectExpr("*", f"{dcg(protocol)} as dcg")
    grade = grade_key(protocol)
    counted = f"coalesce(listed, false) and {counted_text(protocol)}"
    relevant = f"result.grades >= {min_grade_text(protocol)}"
    rows = _at_each_min_grade(known, protocol).selectExpr(
        RUN,
        *grade,
        f"explode({_SLICES}) as slice",
        f"coalesce({NUM_RELEVANT}, 0) as {NUM_RELEVANT}",
        f"{counted} as counted",
        *(f"bigint({count}) as {name}" for name, count in _query_counts(counted, queries_given).items()),
        "num_retrieved",
        f"filter(arrays_zip(ranks, grades), result -> {relevant}) as hits",
        f"filter(arrays_zip(ranks, grades), result -> not {relevant}) as others",
        f"{ndcg(protocol)} as ndcgs",
    )
    entries = rows.selectExpr(
        RUN,
        *grade,
        "slice.*",
        f"{NUM_RELEVANT} as of_list",
        *QUERY_COUNTS,
        "ndcgs",
        f"inline({_entries(protocol)}) as ({RANK}, what)",
    ).where(f"{RANK} <= {protocol.depth}")
    counts = {
        "hits": "count_if(what >= 1)",
        "hit_numbers": "sum(if(what >= 1, what, 0))",
        "lists": f"count_if(what = {_LIST})",
        "first_hits": f"count_if(what = {_FIRST_HIT})",
        "others": f"count_if(what = {_OTHER})",
        "ends": f"count_if(what = {_END})",
        "ndcg": f"cast(sum(if(what <= {_CUTOFF}, get(ndcgs, {_CUTOFF} - what), null)) as {NDCG_TYPE})",
        **{name: f"sum(if(what = {_QUERY}, {name}, 0))" for name in QUERY_COUNTS},
    }
    keyed = entries.selectExpr("*", f"if(what >= 1 or what = {_LIST}, of_list, null) as {NUM_RELEVANT}")
    return keyed.groupBy(RUN, *grade, *SLICE, NUM_RELEVANT, RANK).agg(
        *(F.expr(f"{count} as {name}") for name, count in counts.items())
    )


def population(topics: DataFrame, *, protocol: Protocol) -> DataFrame:
    """How many judged queries there are, whatever the runs: grade_key(), SLICE, num_relevant, POPULATION_COUNTS.

    Args:
        topics: TOPICS.
        protocol: min_grade and no_relevant are read here.
    """
    grade = grade_key(protocol)
    at_each = _at_each_min_grade(topics, protocol)
    members = at_each.selectExpr(
        *grade,
        f"explode({_SLICES}) as slice",
        f"if(listed, {NUM_RELEVANT}, 0) as of_query",
        f"bigint(listed and {counted_text(protocol)}) as population",
        f"if(listed and {counted_text(protocol)}, bigint({NUM_RELEVANT}), 0) as population_relevant",
        f"bigint(listed and {NUM_RELEVANT} = 0) as queries_no_relevant",
        "bigint(not listed) as labels_unlisted",
        "if(listed, repeated_labels, 0) as repeated_labels",
        "if(listed, conflicting_labels, 0) as conflicting_labels",
        "greatest(copies - 1, 0) as repeated_queries",
    ).selectExpr(*grade, "slice.*", f"explode(array(of_query, null)) as {NUM_RELEVANT}", *POPULATION_COUNTS)
    return members.groupBy(*grade, *SLICE, NUM_RELEVANT).agg(
        *(F.expr(f"sum({name}) as {name}") for name in POPULATION_COUNTS)
    )


def _at_each_min_grade(rows: DataFrame, protocol: Protocol) -> DataFrame:
    """The rows once for each min_grade, num_relevant being |R| at that one; 0 where a query has no labels."""
    if not grade_key(protocol):
        return rows
    each = f"coalesce({NUM_RELEVANT_EACH}, array_repeat(0, {len(protocol.min_grades)}))"
    return rows.drop(NUM_RELEVANT).selectExpr("*", f"posexplode({each}) as ({PLACE}, {NUM_RELEVANT})")


# The slices of a query, the total first, as an array of (slice, slice_value)
_TOTAL = f"named_struct('slice', '{TOTAL}', 'slice_value', '{TOTAL}')"
_SLICES = (
    f"concat(array({_TOTAL}), coalesce(transform(map_entries(slices), "
    "entry -> named_struct('slice', entry.key, 'slice_value', entry.value)), array()))"
)


# What an entry of a list is: the running number of a hit (from 1), or one of these
_OTHER = 0  # a judged result that is no hit
_END = -1  # the end of the list, at the first rank without a result
_QUERY = -2  # the list as a whole, at rank 0
_LIST = -3  # the list among those with its |R|, at rank 0
_FIRST_HIT = -4  # the first hit once more, whatever |R|
_CUTOFF = -5  # the first cutoff; the next ones are the integers below


def _entries(protocol: Protocol) -> str:
    """What one list adds to the histogram: itself as a query and, when counted, its results, its end, its cutoffs."""

    def entry(rank: str | int, what: str | int) -> str:
        return f"named_struct('{RANK}', {rank}, 'what', {what})"

    whole = entry(0, _QUERY)
    cutoffs = ", ".join(entry(k, _CUTOFF - place) for place, k in enumerate(protocol.cutoffs))
    return f"""if(
        counted,
        concat(
            array({whole}, {entry(0, _LIST)}, {entry("num_retrieved + 1", _END)}, {cutoffs}),
            transform(hits, (hit, place) -> {entry("hit.ranks", "place + 1")}),
            transform(slice(hits, 1, 1), hit -> {entry("hit.ranks", _FIRST_HIT)}),
            transform(others, other -> {entry("other.ranks", _OTHER)})
        ),
        array({whole})
    )"""


def _query_counts(counted: str, queries_given: bool) -> dict[str, str]:
    """What a list adds to each of QUERY_COUNTS: SQL over its columns and those of its query."""
    unknown = "listed is null"
    exists = "coalesce(listed, false)" if queries_given else "true"
    return {
        "queries": counted,
        "queries_relevant": f"if({counted}, {NUM_RELEVANT}, 0)",
        "queries_in_run": "coalesce(listed, false)",
        "queries_unjudged": f"{unknown} and {exists}",
        "run_unlisted": f"{unknown} and not {exists}",
        REPEATS: f"if({exists}, {REPEATS}, 0)",
        "results": "num_retrieved",
        "judged_results": "size(ranks)",
    }
